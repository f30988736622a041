// Is all well? Numbers, what waits, what fires next, and who changed what.

import { can, get, type Schemas } from '../api'
import { Chart } from '../chart'
import { type Loaded, useLoad } from '../load'
import { A, amount, bounded, count, Failure, List, Loading, Show, Subject, Table, Text, Time, Title } from '../parts'
import { path } from '../place'
import { Repair, Wrong } from '../repair'
import { ago, duration } from '../time'

const SLOW_SECONDS = 60

type Queue = Schemas['QueueView']
const failedOf = (queue: Queue): number => queue.minutes.reduce((sum, { counts }) => sum + (counts.dead ?? 0) + (counts.retried ?? 0), 0)
const isSlow = (queue: Queue): boolean => (queue.oldest_age_seconds ?? 0) > SLOW_SECONDS
const needsALook = (queue: Queue): boolean => isSlow(queue) || failedOf(queue) > 0 || queue.counts.dead > 0

export function Overview() {
  const stats = useLoad('stats', (signal) => get('/v1/stats', { signal }), ['message.', 'queue.', 'firing.'])
  const usage = useLoad('usage', (signal) => get('/v1/usage', { signal }), ['message.', 'queue.', 'schedule.'])
  const next = useLoad('upcoming', (signal) => get('/v1/upcoming', { query: { limit: 6 }, signal }), ['schedule.', 'firing.'])
  const health = useLoad('health', (signal) => get('/v1/health', { signal }), [''])
  const changes = useLoad('changes', (signal) => get('/v1/audit', { query: { limit: 6 }, signal }), [''])
  const queues = stats.data?.queues ?? []
  return (
    <>
      <Title>Overview</Title>
      <Status of={health} />
      <Show of={usage}>
        {({ schedules, queues, messages, at_least }) => {
          const known = { counts: messages, at_least }
          return (
            <div class="cards">
              <Card to="/schedules" name="schedules" number={amount(schedules)} />
              <Card to="/queues" name="queues" number={amount(queues)} />
              <Card to="/queues" name="ready" number={bounded(known, 'ready')} />
              <Card to="/queues" name="running" number={bounded(known, 'claimed')} />
              <Card to="/queues" name="delayed" number={bounded(known, 'delayed')} />
              <Card to="/dead" name="dead letters" number={bounded(known, 'dead')} isBad={messages.dead > 0} />
            </div>
          )
        }}
      </Show>
      <Show of={stats}>
        {(data) => (
          <>
            {queues.some(needsALook) && (
              <>
                <h2>Queues that need a look</h2>
                <Table
                  label="Queues that need a look"
                  items={queues.filter(needsALook).slice(0, 50)}
                  id={(each) => each.queue}
                  empty=""
                  columns={[
                    [
                      'queue',
                      (each) => (
                        <A to={path('queues', each.queue)}>
                          <Text>{each.queue}</Text>
                        </A>
                      ),
                    ],
                    ['ready', (each) => bounded(each, 'ready'), 'num'],
                    [
                      'oldest waits',
                      (each) => <span class={isSlow(each) ? 'warn' : ''}>{each.oldest_age_seconds === null ? '–' : duration(each.oldest_age_seconds)}</span>,
                      'num',
                    ],
                    ['failed or dead, 30 min', (each) => amount(failedOf(each)), 'num'],
                    [
                      'dead letters',
                      (each) =>
                        each.counts.dead ? (
                          <A to={path('dead', each.queue)}>{each.counts.dead === 1 ? '1 dead letter' : `${bounded(each, 'dead')} dead letters`}</A>
                        ) : (
                          0
                        ),
                      'num',
                    ],
                  ]}
                />
              </>
            )}
            {data.next_cursor && (
              <p class="soft">
                These are of the first {count(queues.length, 'queue')}, by name. <A to="/queues">All queues</A>
              </p>
            )}
          </>
        )}
      </Show>
      <h2>Messages a minute</h2>
      <Show of={stats}>{() => <Chart minutes={summed(queues)} />}</Show>
      <div class="columns">
        <section>
          <h2>Next fires</h2>
          <Show of={next}>
            {(data) => (
              <Table
                label="Next fires"
                items={data.fires}
                id={(each) => `${each.schedule_id} ${each.fire_at}`}
                empty={<NoSchedule />}
                columns={[
                  [
                    'schedule',
                    (each) => (
                      <A to={path('schedules', each.schedule_id ?? '')}>
                        <Text>{each.name ?? each.schedule_id}</Text>
                      </A>
                    ),
                  ],
                  [
                    'at, in its zone and UTC',
                    (each) => (
                      <>
                        <Time at={each.fire_at} zone={each.timezone} /> <span class="soft">{each.timezone === 'UTC' ? '' : each.timezone}</span>
                      </>
                    ),
                  ],
                  ['in', (each) => ago(each.fire_at), 'num'],
                ]}
              />
            )}
          </Show>
        </section>
        <section>
          <h2>Latest changes</h2>
          <List
            label="Latest changes"
            of={{ ...changes, data: changes.data && { items: changes.data.items } }}
            id={(each) => each.id}
            empty="Nobody has changed anything yet."
            columns={[
              ['at', (each) => <Time at={each.at} />],
              ['who', (each) => <Text>{each.actor}</Text>],
              ['did', (each) => each.action],
              ['what', (each) => <Subject action={each.action} subject={each.subject} />],
            ]}
          />
        </section>
      </div>
    </>
  )
}

/** The counters of several queues by minute. */
function summed(queues: Queue[]): Schemas['LabeledCounts'][] {
  const found = new Map<string, Record<string, number>>()
  for (const { label, counts } of queues.flatMap((each) => each.minutes)) {
    const sums = found.get(label) ?? {}
    for (const [name, number] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + number
    found.set(label, sums)
  }
  return [...found].map(([label, counts]) => ({ label, counts }))
}

const NoSchedule = () => (
  <>
    No schedule fires.{' '}
    {can('manage') && (
      <A to="/schedules" values={{ new: 'yes' }}>
        Create the first schedule
      </A>
    )}
  </>
)

function Card({ to, name, number, isBad }: { to: string; name: string; number: string; isBad?: boolean }) {
  return (
    <A to={to} class="card">
      <b class={isBad ? 'bad' : ''}>{number}</b> {name}
    </A>
  )
}

type Health = Schemas['HealthReport']

/** Whether all is well, which only a whole answer can say; otherwise what is wrong, worst first. */
function Status({ of }: { of: Loaded<Health> }) {
  if (of.isLoading) return <Loading />
  if (of.error || !of.data)
    return (
      <>
        <p class="box warn">
          <strong>It is not known whether all is well.</strong> What is wrong could not be read.
        </p>
        {of.error && <Failure error={of.error} retry={of.reload} />}
      </>
    )
  const { ok, problems } = of.data
  if (ok)
    return (
      <p class="box good">
        <strong>✓ All is well.</strong> Queues, schedules, endpoints, deliveries, runs, quotas and processes were checked.
      </p>
    )
  return (
    <section aria-label="Problems">
      <h2>{count(problems.length, 'problem')}, worst first</h2>
      <ul class="problems">
        {problems.map((problem) => (
          <li key={`${problem.code} ${problem.name} ${problem.what}`} class={`box ${problem.severity === 'error' ? 'bad' : 'warn'}`}>
            <p>
              <strong>
                <Wrong problem={problem} />
              </strong>{' '}
              {problem.since && <Time at={problem.since} isLong />}
            </p>
            <div class="row">
              <span class="soft">
                <Text>{problem.action}</Text>
              </span>
              <Repair problem={problem} />
            </div>
          </li>
        ))}
      </ul>
    </section>
  )
}
