// One message, and everything of one correlation.

import { get, remove, type Problem, type Schemas } from '../api'
import { useLoad } from '../load'
import { A, Act, ask, Empty, Facts, Failure, Json, say, Show, State, Table, Text, Time, Title, Told } from '../parts'
import { path, usePlace } from '../place'
import { between, duration } from '../time'

/** A form that finds things by their id. */
export function Find() {
  const { go } = usePlace()
  const open = (id: string) => {
    const [prefix] = id.split('_')
    const places: Record<string, string[]> = {
      sch: ['schedules'], bat: ['batches'], dead: ['letters'], dlv: ['deliveries'], end: ['endpoints'], msg: ['messages'],
    }
    go(path(...(places[prefix ?? ''] ?? ['trace']), id))
  }
  return (
    <>
      <Title>Messages</Title>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault()
          open(String(new FormData(event.currentTarget).get('id')).trim())
        }}
      >
        <label class="field wide">
          An id (msg_…, sch_…, bat_…, dead_…, dlv_…), or a correlation id
          <input name="id" type="search" required data-search autocomplete="off" />
        </label>
        <button type="submit" class="main">
          Open
        </button>
      </form>
      <Empty>
        Messages are listed on the page of their <A to="/queues">queue</A>. A message that was processed is deleted; its trace stays as long as the records about it.
      </Empty>
    </>
  )
}

export function WhyBox({ of }: { of: ReturnType<typeof useLoad<Schemas['Wait']>> }) {
  return (
    <Show of={of}>
      {(why) => (
        <div class="box">
          <p>
            <strong><Told>{why.answer}</Told></strong>
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
      <Title kind="Message" note={loaded.data && <State is={loaded.data.state} />}>{id}</Title>
      <h2>Why is it here?</h2>
      <WhyBox of={why} />
      {loaded.error?.status === 404 ? (
        <Gone error={loaded.error} />
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

const Gone = ({ error }: { error: Problem }) => (
  <>
    <Failure error={error} />
    <p>A message that was processed is deleted. If it failed, it is among the <A to="/dead">dead letters</A>.</p>
  </>
)

type Node = Schemas['TraceNode']
const PLACES: Record<string, string> = { message: 'messages', 'dead letter': 'letters', dead_letter: 'letters', delivery: 'deliveries', schedule: 'schedules', batch: 'batches' }
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
          const all = flat(trace.nodes).slice(0, NODES_MAX).map(([node, depth], index) => ({ node, depth, index }))
          const times = all.flatMap(({ node }) => [node.at, node.ended_at]).filter((each) => each != null).map((each) => Date.parse(each))
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
                        {PLACES[node.kind] ? <A to={path(PLACES[node.kind]!, node.id)}><Text>{node.name}</Text></A> : <Text>{node.name}</Text>} <Text>{node.type ?? ''}</Text>
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
                      const long = node.at && !node.ended_at && ONGOING.has(node.state) ? 100 : node.at && node.ended_at ? (between(node.at, node.ended_at) * 100_000) / span : 0
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
