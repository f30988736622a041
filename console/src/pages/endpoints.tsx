// Endpoints with their health, and what became of events.

import { get, post, type Schemas } from '../api'
import { useList, useLoad } from '../load'
import { A, Act, ask, count, Facts, Filter, Input, List, Show, State, say, Text, Time, Title } from '../parts'
import { path, usePlace } from '../place'
import { duration } from '../time'

type Answer = Schemas['EndpointAnswer']
const healthOf = (endpoint: Answer): string => (endpoint.disabled_at ? 'disabled' : endpoint.health.failing_since ? 'failing' : 'active')
const TOPICS = ['endpoint', 'delivery', 'event', 'message.']

export function Endpoints() {
  const loaded = useList('endpoints', (page, signal) => get('/v1/endpoints', { query: page, signal }), TOPICS)
  return (
    <>
      <Title>Endpoints</Title>
      <div class="row">
        <Act
          needs="manage"
          onAct={() =>
            ask({
              title: 'New endpoint',
              fields: (
                <>
                  <Input label="Name" name="name" required maxLength={120} />
                  <Input label="URL" name="url" type="url" required placeholder="https://example.com/hooks" />
                  <Input label="Types, such as order.* (separate with commas)" name="types" required />
                </>
              ),
              act: 'Create the endpoint',
              run: async ({ name, url, types }) => {
                const made = await post('/v1/endpoints', { body: { name, url, types: (types ?? '').split(',').map((each) => each.trim()) } })
                loaded.reload()
                ask({
                  title: 'The signing secret',
                  text: 'It is shown once. Give it to the receiver.',
                  fields: <pre>{made.secret}</pre>,
                  act: 'I have stored it',
                  run: () => Promise.resolve(),
                })
              },
            })
          }
        >
          New endpoint
        </Act>
        <A to="/deliveries" values={{ status: 'dead' }}>
          Deliveries that failed
        </A>
      </div>
      <List
        label="Endpoints"
        of={loaded}
        id={(each) => each.id}
        empty="There is no endpoint. An endpoint is a URL that receives your events, signed and retried."
        columns={[
          [
            'name',
            (each) => (
              <A to={path('endpoints', each.id)}>
                <Text>{each.name}</Text>
              </A>
            ),
          ],
          [
            'health',
            (each) => (
              <>
                <State is={healthOf(each)} /> {each.health.failures_in_row > 0 && `${count(each.health.failures_in_row, 'failure')} in a row`}
              </>
            ),
          ],
          ['types', (each) => <Text>{each.types.join(', ')}</Text>],
          ['URL', (each) => <Text>{each.url}</Text>, 'wide'],
        ]}
      />
    </>
  )
}

export function Endpoint({ id }: { id: string }) {
  const loaded = useLoad(id, (signal) => get('/v1/endpoints/{endpoint}', { path: { endpoint: id }, signal }), TOPICS)
  const stats = useLoad(`stats ${id}`, (signal) => get('/v1/endpoints/{endpoint}/stats', { path: { endpoint: id }, signal }), TOPICS)
  const named = { path: { endpoint: id } }
  const done = (text: string) => {
    say(text)
    loaded.reload()
  }
  return (
    <Show of={loaded}>
      {(data) => (
        <>
          <Title kind="Endpoint" note={<State is={healthOf(data)} />}>
            {data.name}
          </Title>
          {data.disabled_reason && (
            <p class="box warn">
              Disabled: <Text>{data.disabled_reason}</Text>, <Time at={data.disabled_at} isLong />
            </p>
          )}
          <div class="row">
            {data.disabled_at ? (
              <Act needs="manage" isMain onAct={() => post('/v1/endpoints/{endpoint}/enable', named).then(() => done('Enabled: what waited is delivered.'))}>
                Enable
              </Act>
            ) : (
              <Act
                needs="manage"
                onAct={() =>
                  ask({
                    title: `Disable ${data.name}?`,
                    text: `Deliveries wait until it is enabled again. ${count(stats.data?.waiting ?? 0, 'delivery', 'deliveries')} wait now.`,
                    fields: <Input label="Reason" name="reason" required />,
                    act: 'Disable the endpoint',
                    run: async ({ reason }) => {
                      await post('/v1/endpoints/{endpoint}/disable', { ...named, body: { reason } })
                      done('Disabled.')
                    },
                  })
                }
              >
                Disable
              </Act>
            )}
            <Act
              needs="manage"
              onAct={async () => {
                const tried = await post('/v1/endpoints/{endpoint}/test', named)
                done(tried.error ? `The test failed: ${tried.error}` : `The receiver answered ${tried.code} after ${duration(tried.took_seconds)}.`)
              }}
            >
              Send a test
            </Act>
            <Act
              needs="manage"
              onAct={() =>
                ask({
                  title: `Send dead deliveries of ${data.name} again?`,
                  text: `Those that failed since the time below are sent again; how many, is said then. ${count(stats.data?.dead ?? 0, 'delivery', 'deliveries')} died in the last seven days.`,
                  fields: <Input label="That failed since" name="since" required value={new Date(Date.now() - 86_400_000).toISOString()} />,
                  act: 'Recover',
                  run: async ({ since }) => {
                    const { recovered } = await post('/v1/endpoints/{endpoint}/recover', { ...named, body: { since } })
                    done(`${count(recovered, 'delivery', 'deliveries')} will be sent again as soon as the endpoint takes deliveries.`)
                  },
                })
              }
            >
              Recover
            </Act>
            <A to="/deliveries" values={{ endpoint: data.name }}>
              Deliveries
            </A>
          </div>
          <Show of={stats}>
            {(numbers) => (
              <div class="cards">
                {(['waiting', 'delivered', 'dead', 'attempts', 'failed_attempts'] as const).map((each) => (
                  <span class="card" key={each}>
                    <b>{numbers[each].toLocaleString('en')}</b> {each.replace('_', ' ')}
                  </span>
                ))}
                <span class="card">
                  <b>{numbers.p95_seconds == null ? '–' : duration(numbers.p95_seconds)}</b> 95 % answered within
                </span>
              </div>
            )}
          </Show>
          <Facts
            of={[
              ['URL', data.url && <Text>{data.url}</Text>],
              ['types', <Text>{data.types.join(', ')}</Text>],
              ['method', data.method],
              ['failures in a row', data.health.failures_in_row],
              ['failing since', data.health.failing_since && <Time at={data.health.failing_since} isLong />],
              ['held back until', data.health.open_until && <Time at={data.health.open_until} isLong />],
              ['ordered', data.ordered ? 'yes' : 'no'],
              ['timeout', `${data.timeout_seconds} s`],
              ['signature', data.signature],
              ['secret headers', data.secret_headers.join(', ')],
              ['id', <code>{data.id}</code>],
            ]}
          />
        </>
      )}
    </Show>
  )
}

export function Deliveries() {
  const { query } = usePlace()
  const { endpoint, status, since } = query
  const filters = { endpoint, status, since }
  const loaded = useList(JSON.stringify(filters), (page, signal) => get('/v1/deliveries', { query: { ...filters, ...page }, signal }), TOPICS)
  return (
    <>
      <Title>Deliveries</Title>
      <div class="row">
        <Filter name="endpoint" label="Endpoint" />
        <Filter name="status" label="Status" choices={['undelivered', 'waiting', 'delivered', 'dead']} />
        <Filter name="since" label="Published since" hint="2027-01-01T00:00:00Z" />
      </div>
      <List
        label="Deliveries"
        of={loaded}
        id={(each) => each.id}
        empty={endpoint || status || since ? 'No delivery fits these filters.' : 'No event was published for an endpoint yet.'}
        columns={[
          [
            'published',
            (each) => (
              <A to={path('deliveries', each.id)}>
                <Time at={each.published_at} />
              </A>
            ),
          ],
          ['status', (each) => <State is={each.status} />],
          ['type', (each) => <Text>{each.type}</Text>],
          ['attempts', (each) => each.attempts, 'num'],
          [
            'last answer',
            (each) => (
              <>
                {each.last_code} <Text>{each.last_error?.slice(0, 120) ?? ''}</Text>
              </>
            ),
            'wide',
          ],
          ['event', (each) => <Text>{each.event_id}</Text>],
        ]}
      />
    </>
  )
}

export function Delivery({ id }: { id: string }) {
  const loaded = useLoad(id, (signal) => get('/v1/deliveries/{delivery}', { path: { delivery: id }, signal }), TOPICS)
  const attempts = useLoad(`attempts ${id}`, (signal) => get('/v1/deliveries/{delivery}/attempts', { path: { delivery: id }, signal }), TOPICS)
  return (
    <>
      <Title kind="Delivery" note={loaded.data && <State is={loaded.data.status} />}>
        {id}
      </Title>
      <Show of={loaded}>
        {(data) => (
          <>
            <div class="row">
              <Act
                needs="manage"
                onAct={async () => {
                  await post('/v1/deliveries/{delivery}/resend', { path: { delivery: id } })
                  say('It will be sent again as soon as its endpoint takes deliveries.')
                  loaded.reload()
                }}
              >
                Send again
              </Act>
            </div>
            <Facts
              of={[
                ['endpoint', <A to={path('endpoints', data.endpoint_id)}>{data.endpoint_id}</A>],
                ['type', data.type && <Text>{data.type}</Text>],
                ['event', data.event_id && <Text>{data.event_id}</Text>],
                ['published', data.published_at && <Time at={data.published_at} isLong />],
                ['delivered', data.delivered_at && <Time at={data.delivered_at} isLong />],
                ['last error', data.last_error && <Text>{data.last_error}</Text>],
              ]}
            />
          </>
        )}
      </Show>
      <h2>Attempts</h2>
      <List
        label="Attempts"
        of={attempts}
        id={(each) => String(each.number)}
        empty="Nothing was tried yet."
        columns={[
          ['number', (each) => each.number, 'num'],
          ['at', (each) => <Time at={each.at} />],
          ['took', (each) => duration(each.took_seconds), 'num'],
          ['answer', (each) => each.code ?? each.kind],
          ['error', (each) => <Text>{each.error}</Text>, 'wide'],
          ['excerpt', (each) => <Text>{each.excerpt}</Text>, 'wide'],
        ]}
      />
    </>
  )
}
