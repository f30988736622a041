// One message, and everything of one correlation.

import { get, type Problem, remove, type Schemas } from '../api'
import { useList, useLoad } from '../load'
import { A, Act, ask, Facts, Failure, Filter, Json, List, Loading, Show, State, say, Table, Text, Time, Title, Told } from '../parts'
import { path, usePlace } from '../place'
import { between, duration } from '../time'

const OUTCOMES = ['done', 'dead', 'expired', 'discarded'] as const
const FILTERS = ['queue', 'type', 'key', 'event_id', 'correlation_id', 'since'] as const

/** Messages that have ended, in all queues. */
export function Ended() {
  const { query } = usePlace()
  const { queue, type, key, event_id, correlation_id, since } = query
  const outcome = OUTCOMES.find((name) => name === query.outcome)
  const filters = { queue, type, outcome, key, event_id, correlation_id, since }
  const loaded = useList(`history ${JSON.stringify(filters)}`, (page, signal) => get('/v1/history', { query: { ...filters, ...page }, signal }), ['message.'], {
    limit: 50,
  })
  return (
    <>
      <Title>Messages</Title>
      <p class="soft">
        These have ended, the last ones first. Those that wait are on the page of their <A to="/queues">queue</A>.
      </p>
      <div class="row">
        <Filter name="outcome" label="Outcome" choices={OUTCOMES} />
        {FILTERS.map((name) => (
          <Filter
            key={name}
            name={name}
            label={name === 'since' ? 'Ended since' : `${name[0]!.toUpperCase()}${name.slice(1).replace('_', ' ')}`}
            hint={name === 'since' ? '2027-01-01T00:00:00Z' : undefined}
          />
        ))}
      </div>
      <List
        label="Ended messages"
        of={loaded}
        id={(each) => each.id}
        empty={Object.values(filters).some(Boolean) ? 'No ended message fits these filters.' : 'No message has ended yet, or the queues keep no history.'}
        columns={[
          ['message', (each) => <A to={path('messages', each.id)}>…{each.id.slice(-8)}</A>],
          ['outcome', (each) => <State is={each.outcome} />],
          ['queue', (each) => <Text>{each.queue}</Text>],
          ['type', (each) => <Text>{each.type}</Text>],
          ['key', (each) => <Text>{each.key}</Text>],
          ['attempts', (each) => each.attempts, 'num'],
          ['ended', (each) => <Time at={each.ended_at} />],
          ['ran', (each) => (each.duration_seconds === null ? '–' : duration(each.duration_seconds)), 'num'],
          ['reason', (each) => <Text>{each.reason?.slice(0, 120)}</Text>, 'wide'],
        ]}
      />
    </>
  )
}

/** What became of a message that has ended. */
function Record({ of }: { of: Schemas['HistoryRecord'] }) {
  return (
    <>
      {of.correlation_id && (
        <div class="row">
          <A to={path('trace', of.correlation_id)}>Trace</A>
        </div>
      )}
      <Facts
        of={[
          ['outcome', <State is={of.outcome} />],
          ['reason', of.reason && <Text>{of.reason}</Text>],
          ['queue', <A to={path('queues', of.queue)}>{of.queue}</A>],
          ['type', of.type && <Text>{of.type}</Text>],
          ['key', of.key && <Text>{of.key}</Text>],
          ['attempts', of.attempts],
          ['sent', <Time at={of.sent_at} isLong />],
          ['started', of.started_at && <Time at={of.started_at} isLong />],
          ['ended', <Time at={of.ended_at} isLong />],
          ['ran', of.duration_seconds !== null && duration(of.duration_seconds)],
          ['process', of.node && <Text>{of.node}</Text>],
          ['source', of.source && <Text>{of.source}</Text>],
          ['event id', of.event_id && <Text>{of.event_id}</Text>],
          ['caused by', of.causation_id && <A to={path('messages', of.causation_id)}>{of.causation_id}</A>],
          ['batch', of.batch_id && <A to={path('batches', of.batch_id)}>{of.batch_id}</A>],
          ['schedule', of.schedule_id && <A to={path('schedules', of.schedule_id)}>{of.schedule_id}</A>],
          ['slot', of.slot && <Time at={of.slot} isLong />],
        ]}
      />
      {of.content_type && (
        <>
          <h2>Body ({of.content_type})</h2>
          <Json value={of.body} label="Body" isText={of.content_type !== 'json'} />
        </>
      )}
    </>
  )
}

export function WhyBox({ of }: { of: ReturnType<typeof useLoad<Schemas['Wait']>> }) {
  return (
    <Show of={of}>
      {(why) => (
        <div class="box">
          <p>
            <strong>
              <Told>{why.answer}</Told>
            </strong>
          </p>
          <p>
            <Told>{why.next}</Told>
          </p>
          {why.until && (
            <p class="soft">
              until <Time at={why.until} isLong />
            </p>
          )}
          {why.details.length > 0 && (
            <ul>
              {why.details.map((each) => (
                <li key={each}>
                  <Told>{each}</Told>
                </li>
              ))}
            </ul>
          )}
        </div>
      )}
    </Show>
  )
}

export function Message({ id }: { id: string }) {
  const { go } = usePlace()
  const loaded = useLoad(id, (signal) => get('/v1/messages/{message_id}', { path: { message_id: id }, signal }), ['message.'])
  const why = useLoad(`why ${id}`, (signal) => get('/v1/messages/{message_id}/why', { path: { message_id: id }, signal }), ['message.'])
  return (
    <>
      <Title kind="Message" note={loaded.data && <State is={loaded.data.state} />}>
        {id}
      </Title>
      <h2>Why is it here?</h2>
      <WhyBox of={why} />
      {loaded.error?.status === 404 ? (
        <Gone id={id} error={loaded.error} />
      ) : (
        <Show of={loaded}>
          {(data) => (
            <>
              <div class="row">
                <Act
                  needs="manage"
                  isDanger
                  onAct={() =>
                    ask({
                      title: 'Delete this message?',
                      text: 'No handler will get it. This cannot be undone.',
                      act: 'Delete 1 message',
                      isDanger: true,
                      run: async () => {
                        await remove('/v1/queues/{queue}/messages/{message_id}', { path: { queue: data.queue, message_id: id } })
                        say('Deleted.')
                        go(path('queues', data.queue))
                      },
                    })
                  }
                >
                  Delete
                </Act>
                {data.correlation_id && <A to={path('trace', data.correlation_id)}>Trace</A>}
              </div>
              <Facts
                of={[
                  ['queue', <A to={path('queues', data.queue)}>{data.queue}</A>],
                  ['type', data.type && <Text>{data.type}</Text>],
                  ['key', data.key && <Text>{data.key}</Text>],
                  ['priority', data.priority],
                  ['attempts', data.attempts],
                  ['lost claims', data.lost_claims],
                  ['sent', data.sent_at && <Time at={data.sent_at} isLong />],
                  ['visible', data.visible_at && <Time at={data.visible_at} isLong />],
                  ['claimed', data.claimed_at && <Time at={data.claimed_at} isLong />],
                  ['source', data.source && <Text>{data.source}</Text>],
                  ['event id', data.event_id && <Text>{data.event_id}</Text>],
                  ['caused by', data.causation_id && <A to={path('messages', data.causation_id)}>{data.causation_id}</A>],
                  ['batch', data.batch_id && <A to={path('batches', data.batch_id)}>{data.batch_id}</A>],
                  ['schedule', data.schedule_id && <A to={path('schedules', data.schedule_id)}>{data.schedule_id}</A>],
                ]}
              />
              {data.last_error && (
                <p class="box warn">
                  <Text>{data.last_error}</Text>
                </p>
              )}
              <h2>Body ({data.content_type})</h2>
              <Json value={data.body} label="Body" isText={data.content_type !== 'json'} />
            </>
          )}
        </Show>
      )}
    </>
  )
}

/** It waits no more: what became of it, if its queue keeps history. */
function Gone({ id, error }: { id: string; error: Problem }) {
  const record = useLoad(`history ${id}`, (signal) => get('/v1/history/{message_id}', { path: { message_id: id }, signal }), ['message.'])
  if (record.isLoading) return <Loading />
  if (record.data) return <Record of={record.data} />
  return (
    <>
      <Failure error={error} />
      <p>
        There is no record of it: its queue keeps none, or the record was dropped. If it failed, it is among the <A to="/dead">dead letters</A>.
      </p>
    </>
  )
}

type Node = Schemas['TraceNode']
const PLACES: Record<string, string> = {
  message: 'messages',
  'dead letter': 'letters',
  dead_letter: 'letters',
  delivery: 'deliveries',
  schedule: 'schedules',
  batch: 'batches',
}
const NODES_MAX = 200
const ONGOING = new Set(['running', 'waiting', 'claimed', 'started', 'retrying'])

const flat = (nodes: Node[], depth = 0): [Node, number][] => nodes.flatMap((node) => [[node, depth] as [Node, number], ...flat(node.children, depth + 1)])

export function Trace({ id }: { id: string }) {
  const loaded = useLoad(id, (signal) => get('/v1/trace/{correlation_id}', { path: { correlation_id: id }, signal }), [''])
  return (
    <>
      <Title kind="Trace">{id}</Title>
      <Show of={loaded}>
        {(trace) => {
          const all = flat(trace.nodes)
            .slice(0, NODES_MAX)
            .map(([node, depth], index) => ({ node, depth, index }))
          const times = all
            .flatMap(({ node }) => [node.at, node.ended_at])
            .filter((each) => each != null)
            .map((each) => Date.parse(each))
          const from = Math.min(...times)
          const span = Math.max(...times) - from || 1
          return (
            <>
              {(trace.is_cut || all.length === NODES_MAX) && <p class="box warn">This trace is long: only its beginning is shown.</p>}
              <Table
                label="Trace"
                items={all}
                id={({ index }) => String(index)}
                empty="Nothing on record has this correlation id."
                columns={[
                  [
                    'what',
                    ({ node, depth }) => (
                      <>
                        <span class="soft">
                          {'· '.repeat(depth)}
                          {node.kind}{' '}
                        </span>
                        {node.kind === 'step' && <Text>{`${node.id} `}</Text>}
                        {PLACES[node.kind] ? (
                          <A to={path(PLACES[node.kind]!, node.id)}>
                            <Text>{node.name}</Text>
                          </A>
                        ) : (
                          <Text>{node.name}</Text>
                        )}{' '}
                        <Text>{node.type ?? ''}</Text>
                        {node.error && (
                          <div class="bad">
                            <Text>{node.error}</Text>
                          </div>
                        )}
                      </>
                    ),
                  ],
                  ['state', ({ node }) => <State is={node.state} />],
                  ['began', ({ node }) => <Time at={node.at} />],
                  ['took', ({ node }) => (node.at && node.ended_at ? duration(between(node.at, node.ended_at)) : '–'), 'num'],
                  [
                    'when',
                    ({ node }) => {
                      const began = node.at ? ((Date.parse(node.at) - from) / span) * 100 : 0
                      const long =
                        node.at && !node.ended_at && ONGOING.has(node.state)
                          ? 100
                          : node.at && node.ended_at
                            ? (between(node.at, node.ended_at) * 100_000) / span
                            : 0
                      return (
                        <div class="bar busy">
                          <i style={{ left: `${began}%`, width: `${Math.min(long, 100 - began)}%` }} />
                        </div>
                      )
                    },
                  ],
                ]}
              />
            </>
          )
        }}
      </Show>
    </>
  )
}
