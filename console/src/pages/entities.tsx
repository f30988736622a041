// Entities: keyed objects with storage and an alarm.

import { get, post, put, remove } from '../api'
import { stringify } from '../json'
import { useList, useLoad } from '../load'
import { A, Act, Area, amount, ask, Facts, Filter, Input, Json, List, Show, say, Text, Time, Title, Told } from '../parts'
import { path, usePlace } from '../place'

export function Entities({ type }: { type?: string }) {
  return type ? <OfType type={type} /> : <Types />
}

const COUNTED_MAX = 1_000

function Types() {
  const loaded = useList('types', (page, signal) => get('/v1/entities', { query: page, signal }), ['entity'])
  return (
    <>
      <Title>Entities</Title>
      <List
        label="Types of entities"
        of={loaded}
        id={(each) => each.type}
        empty="There is no type of entities. An entity is an object with a key and storage of its own; an app registers its class."
        columns={[
          [
            'type',
            (each) => (
              <A to={path('entities', each.type)}>
                <Text>{each.type}</Text>
              </A>
            ),
          ],
          ['entities', (each) => `${amount(each.entities)}${each.entities >= COUNTED_MAX ? '+' : ''}`, 'num'],
        ]}
      />
    </>
  )
}

function OfType({ type }: { type: string }) {
  const { query } = usePlace()
  const { prefix } = query
  const loaded = useList(
    `entities ${type} ${prefix}`,
    (page, signal) => get('/v1/entities/{entity_type}', { path: { entity_type: type }, query: { prefix, ...page }, signal }),
    ['entity'],
  )
  return (
    <>
      <Title kind="Entities of type">{type}</Title>
      <div class="row">
        <Filter name="prefix" label="Key begins with" />
      </div>
      <List
        label="Entities"
        of={loaded}
        id={(each) => each.key}
        empty={prefix ? 'No key begins like that.' : 'No entity of this type is stored.'}
        columns={[
          [
            'key',
            (each) => (
              <A to={path('entities', type, each.key)}>
                <Text>{each.key}</Text>
              </A>
            ),
          ],
          ['storage', (each) => `${amount(each.storage_bytes)} bytes`, 'num'],
          ['alarm', (each) => <Time at={each.alarm_at} />],
          ['schedules', (each) => each.schedules.length, 'num'],
          ['updated', (each) => <Time at={each.updated_at} />],
        ]}
      />
    </>
  )
}

export function Entity({ type, key: _, ...more }: { type: string; key?: string; params?: Record<string, string> }) {
  return <Whole type={type} name={more.params?.key ?? ''} />
}

function Whole({ type, name }: { type: string; name: string }) {
  const { go } = usePlace()
  const named = { path: { entity_type: type, key: name } }
  const loaded = useLoad(`${type} ${name}`, (signal) => get('/v1/entities/{entity_type}/{key}', { ...named, signal }), ['entity'])
  const storage = useList(
    `storage ${type} ${name}`,
    (page, signal) => get('/v1/entities/{entity_type}/{key}/storage', { ...named, query: page, signal }),
    ['entity'],
    { limit: 50 },
  )
  const waits = useLoad(`why ${type} ${name}`, (signal) => get('/v1/entities/{entity_type}/{key}/why', { ...named, signal }), ['entity'])
  return (
    <>
      <Title kind={type}>{name}</Title>
      <div class="row">
        <Act
          needs="send"
          onAct={() =>
            ask({
              title: 'Call a method',
              fields: (
                <>
                  <Input label="Method" name="method" required />
                  <Area label="Arguments, as a JSON list or object" name="args" value="[]" />
                </>
              ),
              act: 'Call',
              run: async ({ method, args }) => {
                const answer = await post('/v1/entities/{entity_type}/{key}/{method}', {
                  path: { ...named.path, method: method ?? '' },
                  raw: `{"args":${args || '[]'}}`,
                })
                loaded.reload()
                storage.reload()
                ask({ title: 'The answer', fields: <Json value={answer.result ?? null} label="Result" />, act: 'Close', run: () => Promise.resolve() })
              },
            })
          }
        >
          Call a method
        </Act>
        <Act
          needs="manage"
          isDanger
          onAct={() =>
            ask({
              title: `Delete the entity ${name}?`,
              text: 'Its storage and its alarm are deleted. This cannot be undone.',
              act: 'Delete 1 entity',
              isDanger: true,
              run: async () => {
                await remove('/v1/entities/{entity_type}/{key}', named)
                say('Deleted.')
                go(path('entities', type))
              },
            })
          }
        >
          Delete
        </Act>
      </div>
      <Show of={loaded}>
        {(data) => (
          <Facts
            of={[
              ['storage', `${data.storage_bytes.toLocaleString('en')} bytes`],
              ['schema version', data.schema_version],
              ['alarm', data.alarm_at && <Time at={data.alarm_at} isLong />],
              ['created', data.created_at && <Time at={data.created_at} isLong />],
              ['updated', data.updated_at && <Time at={data.updated_at} isLong />],
              ['schedules', data.schedules.map((each) => <A to={path('schedules', each)}>{each} </A>)],
            ]}
          />
        )}
      </Show>
      <h2>What waits</h2>
      <List
        label="What waits"
        of={waits}
        id={(each) => each.id}
        empty="No call waits."
        columns={[
          ['what', (each) => each.kind],
          ['why', (each) => <Told>{each.answer}</Told>, 'wide'],
          ['next', (each) => <Told>{each.next}</Told>, 'wide'],
        ]}
      />
      <h2>Storage</h2>
      <List
        label="Storage"
        of={storage}
        id={(each) => each.name}
        empty="Nothing is stored."
        columns={[
          ['name', (each) => <Text>{each.name}</Text>],
          ['value', (each) => <Json value={each.value ?? null} label={`Value of ${each.name}`} />],
          [
            'actions',
            (each) => (
              <Act
                needs="manage"
                onAct={() =>
                  ask({
                    title: `Change ${each.name}`,
                    text: 'Calls of the entity wait while it is changed.',
                    fields: <Area label="Value, as JSON" name="value" required value={stringify(each.value ?? null, 2)} />,
                    act: 'Change 1 value',
                    run: async ({ value }) => {
                      await put('/v1/entities/{entity_type}/{key}/storage/{name}', { path: { ...named.path, name: each.name }, raw: `{"value":${value}}` })
                      say('Changed.')
                      storage.reload()
                    },
                  })
                }
              >
                Change
              </Act>
            ),
          ],
        ]}
      />
    </>
  )
}
