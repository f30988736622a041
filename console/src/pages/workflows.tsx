// Workflows, their runs, and one run with a bar for each step.

import { can, get, post, type Schemas, send } from '../api'
import { useList, useLoad } from '../load'
import { A, Act, Area, amount, ask, type Column, Facts, Filter, Input, Json, List, Show, State, say, Table, Text, Time, Title } from '../parts'
import { path, usePlace } from '../place'
import { between, duration } from '../time'
import { WhyBox } from './messages'

const TOPICS = ['run', 'workflow', 'message.']
const STATUSES = ['running', 'sleeping', 'waiting', 'paused', 'completed', 'failed', 'diverged', 'cancelled', 'terminated'] as const

export function Workflows() {
  const loaded = useLoad('workflows', (signal) => get('/v1/workflows', { signal }), TOPICS)
  return (
    <>
      <Title>Workflows</Title>
      <List
        label="Workflows"
        of={loaded}
        id={(each) => each}
        empty="There is no workflow. A workflow is a function with steps whose runs survive crashes and deploys."
        columns={[
          [
            'workflow',
            (each) => (
              <A to={path('workflows', each)}>
                <Text>{each}</Text>
              </A>
            ),
          ],
        ]}
      />
    </>
  )
}

export function Runs({ name }: { name: string }) {
  const { query } = usePlace()
  const { status } = query
  const loaded = useList(
    `runs ${name} ${status}`,
    (page, signal) => get('/v1/workflows/{workflow}/runs', { path: { workflow: name }, query: { status, ...page }, signal }),
    TOPICS,
  )
  return (
    <>
      <Title kind="Runs of">{name}</Title>
      <div class="row">
        <Filter name="status" label="Status" choices={STATUSES} />
        <Act
          needs="send"
          onAct={() =>
            ask({
              title: `Start a run of ${name}`,
              fields: (
                <>
                  <Input label="Id (optional)" name="id" />
                  <Area label="Parameters, as JSON" name="params" value="{}" />
                </>
              ),
              act: 'Start 1 run',
              run: async ({ id, params }) => {
                const fields = id ? `"id":${JSON.stringify(id)},` : ''
                await post('/v1/workflows/{workflow}/runs', { path: { workflow: name }, raw: `{${fields}"params":${params || 'null'}}` })
                say('Started.')
                loaded.reload()
              },
            })
          }
        >
          Start a run
        </Act>
      </div>
      <List
        label="Runs"
        of={loaded}
        id={(each) => each.id}
        empty={status ? `No run is ${status}.` : 'This workflow has no run yet.'}
        columns={[
          [
            'run',
            (each) => (
              <A to={path('workflows', name, each.id)}>
                <Text>{each.id}</Text>
              </A>
            ),
          ],
          ['status', (each) => <State is={each.status} />],
          ['created', (each) => <Time at={each.created_at} />],
          ['took', (each) => (each.finished_at ? duration(between(each.created_at, each.finished_at)) : '–'), 'num'],
          ['waits for', (each) => <Text>{each.waits_for.join(', ')}</Text>],
          ['error', (each) => <Text>{each.error?.slice(0, 120)}</Text>, 'wide'],
        ]}
      />
    </>
  )
}

export function Run({ name, id }: { name: string; id: string }) {
  const { query } = usePlace()
  const steps_from = Number(query.from ?? 0)
  const named = { path: { workflow: name, run: id } }
  const loaded = useLoad(
    `${name} ${id} ${steps_from}`,
    (signal) => get('/v1/workflows/{workflow}/runs/{run}', { ...named, query: { steps_from, steps_limit: STEPS_MAX }, signal }),
    TOPICS,
  )
  const why = useLoad(`why ${name} ${id}`, (signal) => get('/v1/workflows/{workflow}/runs/{run}/why', { ...named, signal }), TOPICS)
  const done = (text: string) => {
    say(text)
    loaded.reload()
  }
  return (
    <>
      <Title kind={`Run of ${name}`} note={loaded.data && <State is={loaded.data.status} />}>
        {id}
      </Title>
      <WhyBox of={why} />
      <Show of={loaded}>
        {(run) => (
          <>
            {run.divergence && (
              <p class={`box ${isDiverged(run) ? 'bad' : 'warn'}`} role={isDiverged(run) ? 'alert' : undefined}>
                <strong>Its code diverges from its record.</strong> <Text>{run.divergence}</Text>
              </p>
            )}
            <div class="row">
              {isDiverged(run) ? (
                <Diverged named={named} done={done} />
              ) : run.status === 'paused' ? (
                <Act needs="manage" isMain onAct={() => post('/v1/workflows/{workflow}/runs/{run}/resume', named).then(() => done('Resumed.'))}>
                  Resume
                </Act>
              ) : (
                !run.finished_at && (
                  <Act needs="manage" onAct={() => post('/v1/workflows/{workflow}/runs/{run}/pause', named).then(() => done('Paused after its step.'))}>
                    Pause
                  </Act>
                )
              )}
              {!run.finished_at && (
                <>
                  <Act
                    needs="send"
                    onAct={() =>
                      ask({
                        title: 'Send an event to this run',
                        fields: (
                          <>
                            <Input label="Type" name="type" required />
                            <Area label="Data, as JSON" name="data" value="null" />
                          </>
                        ),
                        act: 'Send 1 event',
                        run: async ({ type, data }) => {
                          await post('/v1/workflows/{workflow}/runs/{run}/events', {
                            ...named,
                            raw: `{"type":${JSON.stringify(type)},"data":${data || 'null'}}`,
                          })
                          done('Sent.')
                        },
                      })
                    }
                  >
                    Send an event
                  </Act>
                  <Act
                    needs="manage"
                    isDanger
                    onAct={() =>
                      ask({
                        title: 'Cancel this run?',
                        text: isDiverged(run)
                          ? 'Undoes what this code can undo, in reverse order. A step that it cannot becomes a dead letter.'
                          : 'Its compensations run, in reverse order.',
                        act: 'Cancel 1 run',
                        isDanger: true,
                        run: async () => {
                          await post('/v1/workflows/{workflow}/runs/{run}/cancel', { ...named, body: { compensate: true } })
                          done('Cancelled.')
                        },
                      })
                    }
                  >
                    {isDiverged(run) ? 'Cancel with compensation' : 'Cancel'}
                  </Act>
                </>
              )}
              {run.correlation_id && <A to={path('trace', run.correlation_id)}>Trace</A>}
            </div>
            <Facts
              of={[
                ['workflow', <A to={path('workflows', name)}>{name}</A>],
                ['version', run.version],
                ['created', run.created_at && <Time at={run.created_at} isLong />],
                ['finished', run.finished_at && <Time at={run.finished_at} isLong />],
                ['deadline', run.deadline_at && <Time at={run.deadline_at} isLong />],
                ['wakes', run.wake_at && <Time at={run.wake_at} isLong />],
                ['waits for', <Text>{run.waits_for.join(', ')}</Text>],
                ['restarts', run.generation],
              ]}
            />
            {run.error && (
              <p class="box bad">
                <Text>{run.error}</Text>
              </p>
            )}
            <Steps run={run} restart={(step) => askRestart(named, step, done)} />
            {run.events.length > 0 && (
              <>
                <h2>Events</h2>
                <Table
                  label="Events"
                  items={run.events.slice(0, EVENTS_MAX)}
                  id={(each) => `${each.type} ${each.sent_at}`}
                  empty=""
                  columns={[
                    ['sent', (each) => <Time at={each.sent_at} />],
                    ['type', (each) => <Text>{each.type}</Text>],
                    ['data', (each) => <Json value={each.data ?? null} label="Data" />],
                    ['taken by', (each) => <Text>{each.consumed_by}</Text>],
                  ]}
                />
              </>
            )}
            <h2>Parameters</h2>
            <Json value={run.params ?? null} label="Parameters" />
            {run.finished_at && (
              <>
                <h2>Result</h2>
                <Json value={run.result ?? null} label="Result" />
              </>
            )}
          </>
        )}
      </Show>
    </>
  )
}

interface Named {
  path: { workflow: string; run: string }
}

const isDiverged = (run: { status: string }): boolean => run.status === 'diverged'

/** What can be done about a run whose code asks for other steps than it has on record. */
function Diverged({ named, done }: { named: Named; done: (text: string) => void }) {
  const { workflow, run } = named.path
  return (
    <>
      <Act
        needs="manage"
        isMain
        onAct={() =>
          ask({
            title: 'Accept the divergence?',
            text: "Goes on with today's code from here. Recorded steps that the code no longer asks for are kept and not repeated, but this code cannot undo them.",
            act: 'Accept 1 run',
            run: async () => {
              await send('POST', `/v1${path('workflows', workflow, 'runs', run, 'accept')}`)
              done('Accepted.')
            },
          })
        }
      >
        Accept
      </Act>
      <Act needs="manage" onAct={() => askRestart(named, undefined, done)}>
        Restart
      </Act>
      <Act
        needs="manage"
        isDanger
        onAct={() =>
          ask({
            title: 'Terminate this run?',
            text: 'It ends as it is. Nothing is undone.',
            act: 'Terminate 1 run',
            isDanger: true,
            run: async () => {
              await post('/v1/workflows/{workflow}/runs/{run}/terminate', named)
              done('Terminated.')
            },
          })
        }
      >
        Terminate
      </Act>
    </>
  )
}

/** Says which steps run again, and whose effects happen again, before it is done. */
async function askRestart(named: Named, step: string | undefined, done: (text: string) => void): Promise<void> {
  const { restart } = await post('/v1/workflows/{workflow}/runs/{run}/restart', { ...named, body: { from_step: step ?? null, dry_run: true } })
  const listed = (steps: readonly string[] | undefined): string => steps?.join(', ') || 'none'
  ask({
    title: step === undefined ? 'Restart the run from its beginning?' : `Restart the run from ${step}?`,
    text: `Run again: ${listed(restart?.runs)}. Effects happen again: ${listed(restart?.repeats)}. Results are kept: ${listed(restart?.keeps)}.`,
    act: 'Restart 1 run',
    isDanger: true,
    run: async () => {
      await post('/v1/workflows/{workflow}/runs/{run}/restart', { ...named, body: { from_step: step ?? null } })
      done('Restarted.')
    },
  })
}

/** A compensation undoes a step. It is no place to restart from. */
const isCompensation = ({ key }: { key: string }): boolean => key.startsWith('compensate ')

const STEPS_MAX = 50
const EVENTS_MAX = 100
const IDLE_SHARE = 0.1

/** A bar for each step. Long times in which nothing ran are folded to a tenth of the width. */
function Steps({ run, restart }: { run: Schemas['RunView']; restart: (step: string) => Promise<void> }) {
  const { query, set } = usePlace()
  const from = Number(query.from ?? 0)
  const { steps, steps_total: total } = run
  const next = run.steps_next ?? null // An answer ends after 4 MB, perhaps before the last of these steps.
  const scale = folded(steps)
  return (
    <section aria-label="Steps">
      <h2>Steps</h2>
      {(total > STEPS_MAX || next !== null || from > 0) && (
        <div class="row">
          <span>
            {amount(from + 1)} to {amount(from + steps.length)} of {amount(total)}
          </span>
          <button type="button" disabled={from === 0} onClick={() => set({ from: Math.max(from - STEPS_MAX, 0) })}>
            Before
          </button>
          <button type="button" disabled={next === null} onClick={() => set({ from: next ?? from })}>
            After
          </button>
          <button type="button" disabled={next === null} onClick={() => set({ from: Math.max(total - STEPS_MAX, next ?? 0) })}>
            Last
          </button>
        </div>
      )}
      <Table
        label="Steps"
        items={steps}
        id={(each) => each.key}
        empty="No step has begun."
        columns={[
          [
            'step',
            (each) => (
              <>
                <Text>{each.key}</Text> <span class="soft">{each.kind}</span>
                {each.error && (
                  <div class="bad">
                    <Text>{each.error}</Text>
                  </div>
                )}
              </>
            ),
            'wide',
          ],
          ['state', (each) => <State is={each.state} />],
          ['attempts', (each) => each.attempts, 'num'],
          ['began', (each) => <Time at={each.started_at} />],
          [
            'took',
            (each) =>
              each.finished_at ? (
                duration(between(each.started_at, each.finished_at))
              ) : each.wake_at ? (
                <>
                  wakes <Time at={each.wake_at} />
                </>
              ) : (
                '–'
              ),
            'num',
          ],
          [
            'when',
            (each) => {
              const began = scale(Date.parse(each.started_at))
              const ended = scale(each.finished_at ? Date.parse(each.finished_at) : Date.now())
              const tone = each.state === 'failed' ? 'bad' : each.kind === 'sleep' || each.kind === 'event' ? 'soft' : 'busy'
              return (
                <div class={`bar ${tone}`}>
                  <i style={{ left: `${began * 100}%`, width: `${Math.max(ended - began, 0) * 100}%` }} />
                </div>
              )
            },
          ],
          ...((run.finished_at || isDiverged(run)) && can('manage')
            ? [
                [
                  'actions',
                  (each) =>
                    !isCompensation(each) && (
                      <Act needs="manage" onAct={() => restart(each.key)}>
                        Restart from here
                      </Act>
                    ),
                ] as Column<Schemas['StepView']>,
              ]
            : []),
        ]}
      />
    </section>
  )
}

/** Maps a time to a share of the width: times of work keep their proportions, waits are cut. */
function folded(steps: Schemas['StepView'][]): (at: number) => number {
  const now = Date.now()
  const spans = steps.map((each) => ({
    start: Date.parse(each.started_at),
    end: each.finished_at ? Date.parse(each.finished_at) : now,
    isWork: each.kind === 'do',
  }))
  const edges = [...new Set(spans.flatMap(({ start, end }) => [start, end]))].sort((a, b) => a - b)
  if (edges.length < 2) return () => 0
  // How many steps work from an edge on: one more where a step starts, one less where it ends.
  const change = new Map<number, number>()
  for (const { start, end } of spans.filter(({ isWork, start, end }) => isWork && end > start)) {
    change.set(start, (change.get(start) ?? 0) + 1)
    change.set(end, (change.get(end) ?? 0) - 1)
  }
  let working = 0
  const pieces = edges.slice(0, -1).map((start, index) => {
    working += change.get(start) ?? 0
    return { start, isBusy: working > 0, width: edges[index + 1]! - start }
  })
  const work = pieces.reduce((sum, each) => sum + (each.isBusy ? each.width : 0), 0) || 1
  const shares = new Map<number, number>()
  let sum = 0
  for (const each of pieces) {
    shares.set(each.start, sum)
    sum += each.isBusy ? each.width : Math.min(each.width, work * IDLE_SHARE)
  }
  // Every time that is asked for is an edge, or now.
  return (at) => (shares.get(at) ?? sum) / (sum || 1)
}
