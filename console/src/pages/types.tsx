// Types of messages: what apps declare for queues, and the schemas.

import { get, type Schemas } from '../api'
import { useLoad } from '../load'
import { A, Empty, Facts, Json, Show, Table, Text, Time, Title } from '../parts'
import { path } from '../place'

type Declared = Schemas['DeclaredType']

const handledBy = (declared: Declared) => (declared.handlers.length > 0 ? declared.handlers.join(', ') : 'it only sends')

export function Types() {
  const types = useLoad('types', (signal) => get('/v1/types', { signal }))
  return (
    <>
      <Title>Types</Title>
      <Show of={types}>
        {(data) => (
          <Table
            label="Types"
            items={data.items.flatMap((type) => type.declared ?? [])}
            id={(declared) => `${declared.queue} ${declared.type} ${declared.app}`}
            empty="No app declares a type. An app that handles a queue does when it starts."
            columns={[
              [
                'type',
                (declared) => (
                  <A to={path('types', declared.type)}>
                    <Text>{declared.type}</Text>
                  </A>
                ),
              ],
              [
                'queue',
                (declared) => (
                  <A to={path('queues', declared.queue)}>
                    <Text>{declared.queue}</Text>
                  </A>
                ),
              ],
              ['app', (declared) => <Text>{declared.app}</Text>],
              ['version', (declared) => <code>{declared.version}</code>],
              ['last seen', (declared) => <Time at={declared.last_seen_at} />],
            ]}
          />
        )}
      </Show>
    </>
  )
}

export function Type({ name }: { name: string }) {
  const type = useLoad(`type ${name}`, (signal) => get('/v1/types/{message_type}', { path: { message_type: name }, signal }))
  return (
    <>
      <Title kind="Type">{name}</Title>
      <Show of={type}>
        {(data) => (
          <>
            {(data.declared ?? []).length === 0 && <Empty>No app declares this type.</Empty>}
            {(data.declared ?? []).map((declared) => (
              <section key={`${declared.queue} ${declared.app}`}>
                <h2>
                  <Text>{declared.queue}</Text>, <Text>{declared.app}</Text>
                </h2>
                <Facts
                  of={[
                    ['version', <code>{declared.version}</code>],
                    ['handled by', <Text>{handledBy(declared)}</Text>],
                    ['first seen', <Time at={declared.first_seen_at} />],
                    ['last seen', <Time at={declared.last_seen_at} />],
                  ]}
                />
                <Json value={declared.schema} label="Schema" />
              </section>
            ))}
          </>
        )}
      </Show>
    </>
  )
}
