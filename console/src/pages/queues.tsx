// All queues, and one: rates, states, ages, and the messages in it.

import { get, patch, post, put, type Schemas } from '../api'
import { Chart } from '../chart'
import { ROWS, useList, useLoad } from '../load'
import {
  A,
  Act,
  Area,
  Ask,
  amount,
  ask,
  bounded,
  type Column,
  count,
  Facts,
  Filter,
  Input,
  List,
  Show,
  Spark,
  State,
  say,
  Table,
  Text,
  Time,
  Title,
} from '../parts'
import { path, usePlace } from '../place'
import { duration, lastMinutes } from '../time'

type Counted = keyof Schemas['Counts']

export function Queues() {
  const { query } = usePlace()
  const loaded = useList('queues', (page, signal) => get('/v1/queues', { query: page, signal }), ['queue.', 'message.'])
  const stats = useLoad(`stats ${query.cursor}`, (signal) => get('/v1/stats', { query: { limit: ROWS, cursor: query.cursor }, signal }), ['queue.', 'message.'])
  const known = new Map((stats.data?.queues ?? []).map((each) => [each.queue, each]))
  const shown = { ...loaded, data: loaded.data && { ...loaded.data, items: loaded.data.items.filter((each) => each.name.includes(query.name ?? '')) } }
  // The numbers come with the statistics, a moment later than the queues.
  const number = (name: Counted): Column<Schemas['QueueAnswer']> => [name, (each) => (known.has(each.name) ? bounded(known.get(each.name)!, name) : '…'), 'num']
  return (
    <>
      <Title>Queues</Title>
      <div class="row">
        <Filter name="name" label="Name contains, on this page" />
        <Act
          needs="manage"
          onAct={() =>
            ask({
              title: 'New queue',
              text: 'A queue made here is for consumers that pull. Queues of an app are declared in its code.',
              fields: <Input label="Name" name="name" required maxLength={120} />,
              act: 'Create the queue',
              run: async ({ name }) => {
                await put('/v1/queues/{queue}', { path: { queue: name ?? '' }, body: {}, isNew: true })
                say('Created.')
                loaded.reload()
              },
            })
          }
        >
          New queue
        </Act>
      </div>
      <List
        label="Queues"
        of={shown}
        id={(each) => each.name}
        empty={
          query.name
            ? 'No queue on this page has such a name.'
            : 'There is no queue yet. An app declares its queues when it starts; make one here for consumers that pull.'
        }
        columns={[
          [
            'queue',
            (each) => (
              <A to={path('queues', each.name)}>
                <Text>{each.name}</Text>
              </A>
            ),
          ],
          ['state', (each) => <State is={each.paused ? 'paused' : 'active'} />],
          [
            'sent, 30 min',
            ({ name }) => {
              const of = known.get(name)
              const sent = of && lastMinutes(of.minutes, 'sent')
              return sent ? <Spark of={sent} label={`${amount(sent.reduce((sum, each) => sum + each, 0))} sent`} /> : '…'
            },
          ],
          number('ready'),
          number('delayed'),
          number('claimed'),
          number('blocked'),
          [
            'dead letters',
            ({ name }) => {
              const of = known.get(name)
              return of?.counts.dead ? <A to={path('dead', name)}>{bounded(of, 'dead')}</A> : of ? 0 : '…'
            },
            'num',
          ],
          ['oldest waits', ({ name }) => (known.get(name)?.oldest_age_seconds == null ? '–' : duration(known.get(name)!.oldest_age_seconds!)), 'num'],
          [
            'served by',
            (each) => (
              <>
                {each.mode}{' '}
                {each.declared_by && (
                  <span class="soft">
                    of the app <Text>{each.declared_by}</Text>
                  </span>
                )}{' '}
                {each.shared && <span class="soft">shared</span>}
              </>
            ),
          ],
        ]}
      />
    </>
  )
}

const OPTIONAL: readonly string[] = ['rate_per_second', 'tenant_claimed_max', 'backlog_bytes_max']
const SETTINGS = [
  'max_retries',
  'timeout_seconds',
  'retention_seconds',
  'max_batch_size',
  'rate_per_second',
  'tenant_claimed_max',
  'backlog_bytes_max',
] as const

export function Queue({ name }: { name: string }) {
  const queue = useLoad(
    name,
    async (signal) => {
      const asked = [
        get('/v1/queues/{queue}', { path: { queue: name }, query: { counts: false }, signal }),
        get('/v1/stats', { query: { queue: name }, signal }),
      ] as const
      const [data, { queues }] = await Promise.all(asked)
      return { ...data, own: queues[0]! }
    },
    ['queue.', 'message.'],
  )
  const named = { path: { queue: name } }
  const done = (text: string) => {
    say(text)
    queue.reload()
  }
  return (
    <>
      <Title kind="Queue" note={queue.data && <State is={queue.data.paused ? 'paused' : 'active'} />}>
        {name}
      </Title>
      <Show of={queue}>
        {(data) => {
          const { own } = data
          const { counts, at_least } = own
          const all = counts.ready + counts.delayed + counts.blocked
          const many = `${at_least.length ? 'at least ' : ''}${count(all, 'message')}`
          return (
            <>
              <div class="row">
                {data.paused ? (
                  <Act needs="manage" isMain onAct={() => post('/v1/queues/{queue}/resume', named).then(() => done('Resumed.'))}>
                    Resume
                  </Act>
                ) : (
                  <Act needs="manage" onAct={() => post('/v1/queues/{queue}/pause', named).then(() => done('Paused: no message is claimed.'))}>
                    Pause
                  </Act>
                )}
                <Act
                  needs="send"
                  onAct={() =>
                    ask({
                      title: `Send a message to ${name}`,
                      fields: (
                        <>
                          <Area label="Body, as JSON" name="body" required value="{}" />
                          <Input label="Type (optional)" name="type" />
                          <Input label="Delay in seconds" name="delay" type="number" min={0} value="0" />
                        </>
                      ),
                      act: 'Send 1 message',
                      run: async ({ body, type, delay }) => {
                        const fields = JSON.stringify({ type: type || undefined, delay_seconds: Number(delay) })
                        await post('/v1/queues/{queue}/messages', { ...named, raw: `${fields.slice(0, -1)},"body":${body}}` })
                        done('Sent.')
                      },
                    })
                  }
                >
                  Send a message
                </Act>
                <Ask
                  needs="manage"
                  title={`Settings of ${name}`}
                  text={`${data.declared_by ? `The app ${data.declared_by} declares this queue: what it declares holds again when it starts. ` : ''}An empty field of the last three means no limit.`}
                  fields={SETTINGS.map((each) => (
                    <Input
                      key={each}
                      label={each.replaceAll('_', ' ')}
                      name={each}
                      type="number"
                      min={0}
                      step="any"
                      required={!OPTIONAL.includes(each)}
                      value={String(data[each] ?? '')}
                    />
                  ))}
                  act="Save the settings"
                  run={async (values) => {
                    const wanted = SETTINGS.map((each) => [each, values[each] ? Number(values[each]) : null] as const)
                    await patch('/v1/queues/{queue}', { ...named, body: Object.fromEntries(wanted.filter(([each, value]) => value !== data[each])) })
                    done('Saved.')
                  }}
                >
                  Change settings
                </Ask>
                <Act
                  needs="manage"
                  isDanger
                  onAct={() =>
                    ask({
                      title: `Delete all waiting messages of ${name}?`,
                      text: `${many[0]!.toUpperCase()}${many.slice(1)} ${all === 1 ? 'waits' : 'wait'} now. Messages that run go on. This cannot be undone.`,
                      act: `Delete ${many}`,
                      isDanger: true,
                      run: async () => {
                        const { purged } = await post('/v1/queues/{queue}/purge', named)
                        done(`${count(purged, 'message')} deleted.`)
                      },
                    })
                  }
                >
                  Purge
                </Act>
                {counts.dead > 0 && <A to={path('dead', name)}>{counts.dead === 1 ? '1 dead letter' : `${bounded(own, 'dead')} dead letters`}</A>}
              </div>
              <div class="cards">
                {(['ready', 'delayed', 'claimed', 'blocked', 'dead'] as const).map((each) => (
                  <span class="card" key={each}>
                    <b class={each === 'dead' && counts.dead ? 'bad' : ''}>{bounded(own, each)}</b> {each === 'dead' ? 'dead letters' : each}
                  </span>
                ))}
                <span class="card">
                  <b>{own.oldest_age_seconds == null ? '–' : duration(own.oldest_age_seconds)}</b> oldest waits
                </span>
              </div>
              <h2>Messages a minute</h2>
              {own.minutes.length ? <Chart minutes={own.minutes} /> : <p class="soft">Nothing happened in the last 30 minutes.</p>}
              {own.kinds.length > 0 && (
                <>
                  <h2>Types and sources, last hour</h2>
                  <Table
                    label="Types and sources"
                    items={own.kinds.slice(0, 50)}
                    id={(each) => each.label}
                    empty=""
                    columns={[
                      ['type', (each) => <Text>{each.label}</Text>],
                      ...(['sent', 'done', 'retried', 'dead'] as const).map(
                        (name): Column<Schemas['LabeledCounts']> => [name, (each) => amount(each.counts[name] ?? 0), 'num'],
                      ),
                    ]}
                  />
                </>
              )}
              <h2>Settings</h2>
              <Facts
                of={[
                  ['served by', `${data.mode}${data.declared_by ? `, app ${data.declared_by}` : ''}`],
                  ['batches', `${data.max_batch_size} messages or ${data.max_batch_timeout} s`],
                  ['retries', data.max_retries],
                  ['timeout', duration(data.timeout_seconds)],
                  ['retention', duration(data.retention_seconds)],
                  ['dead-letter queue', data.dead_letter_queue && <A to={path('queues', data.dead_letter_queue)}>{data.dead_letter_queue}</A>],
                  ['rate per second', data.rate_per_second],
                  ['claimed by a tenant at most', data.tenant_claimed_max],
                  ['bytes that may wait', data.backlog_bytes_max && amount(data.backlog_bytes_max)],
                  ['pushed to', data.push_to],
                  ['limit', data.limit],
                ]}
              />
            </>
          )
        }}
      </Show>
      <Performance queue={name} />
      <Messages queue={name} />
    </>
  )
}

const WIDTHS = ['minute', 'hour', 'day'] as const
const USUAL = { minute: 'the last 60 minutes', hour: 'the last 24 hours', day: 'the last 30 days' }

type Fared = Schemas['TypePerformance']

const half = (of: Schemas['Durations']): string =>
  of.p50_seconds === null ? '–' : [of.p50_seconds, of.p95_seconds, of.p99_seconds].map((each) => duration(each ?? 0)).join(' · ')

const FARED: Column<Fared>[] = [
  ['type', (each) => <Text>{each.type ?? '(no type)'}</Text>],
  ['done', (each) => amount(each.done), 'num'],
  ['failed', (each) => <span class={each.failed ? 'bad' : ''}>{amount(each.failed)}</span>, 'num'],
  ['discarded', (each) => amount(each.discarded), 'num'],
  ['waited: p50 · p95 · p99', (each) => half(each.wait), 'num'],
  ['ran: p50 · p95 · p99', (each) => half(each.run), 'num'],
]

/** How the messages of each type fared: in a time, and in each period of it. */
function Performance({ queue }: { queue: string }) {
  const { query } = usePlace()
  const by = WIDTHS.find((name) => name === query.by) ?? 'hour'
  const { since, until } = query
  const loaded = useLoad(`performance ${queue} ${by} ${since} ${until}`, (signal) => get('/v1/performance', { query: { queue, by, since, until }, signal }), [
    'message.',
  ])
  return (
    <section aria-label="Performance">
      <h2>How messages fared</h2>
      <div class="row">
        <Filter name="by" label="By" choices={WIDTHS} initial="hour" />
        <Filter name="since" label="Since" hint="2027-01-01T00:00:00Z" />
        <Filter name="until" label="Until" hint="2027-01-02T00:00:00Z" />
      </div>
      <Show of={loaded}>
        {({ totals, periods }) => (
          <>
            <Table
              label="Each type"
              items={totals}
              id={(each) => each.type ?? ''}
              empty={`No message ended in ${since || until ? 'this time' : USUAL[by]}.`}
              columns={FARED}
            />
            {periods.length > 0 && (
              <>
                <h3>Each {by}</h3>
                <Table
                  label={`Each ${by}`}
                  items={[...periods].reverse()}
                  id={(each) => `${each.period} ${each.type ?? ''}`}
                  empty=""
                  columns={[['begins', (each) => <Time at={each.period} isLong />], ...FARED]}
                />
              </>
            )}
          </>
        )}
      </Show>
    </section>
  )
}

const STATES = ['ready', 'delayed', 'claimed', 'blocked'] as const

/** A filtered look into the queue; it takes nothing out. */
function Messages({ queue }: { queue: string }) {
  const { query } = usePlace()
  const { state, type, key, correlation_id, older_than } = query
  const filters = { state, type, key, correlation_id, older_than }
  const loaded = useList(
    `messages ${queue} ${JSON.stringify(filters)}`,
    (page, signal) => get('/v1/queues/{queue}/messages', { path: { queue }, query: { ...filters, ...page }, signal }),
    ['message.', 'queue.'],
    { limit: 50 },
  )
  return (
    <section aria-label="Messages">
      <h2>Messages</h2>
      <div class="row">
        <Filter name="state" label="State" choices={STATES} />
        <Filter name="type" label="Type" />
        <Filter name="key" label="Key" />
        <Filter name="correlation_id" label="Correlation id" />
        <Filter name="older_than" label="Older than, in seconds" hint="3600" />
      </div>
      <List
        label="Messages"
        of={loaded}
        id={(each) => each.id}
        empty={Object.values(filters).some(Boolean) ? 'No message fits these filters.' : 'No message waits here.'}
        columns={[
          ['message', (each) => <A to={path('messages', each.id)}>…{each.id.slice(-8)}</A>],
          [
            'state',
            (each) => (
              <>
                <State is={each.state} /> <Text>{each.node ?? ''}</Text>
              </>
            ),
          ],
          ['type', (each) => <Text>{each.type}</Text>],
          ['key', (each) => <Text>{each.key}</Text>],
          ['attempts', (each) => each.attempts, 'num'],
          ['sent', (each) => <Time at={each.sent_at} />],
          ['visible', (each) => <Time at={each.visible_at} />],
          ['last error', (each) => <Text>{each.last_error?.slice(0, 120)}</Text>, 'wide'],
        ]}
      />
    </section>
  )
}
