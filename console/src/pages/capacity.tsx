// Headroom: whether the workers that run keep up with what is due, and what decides it.

import { get, type Schemas } from '../api'
import { useLoad } from '../load'
import { A, amount, count, Show, Table, Text, Time, Title, Told } from '../parts'
import { path, usePlace } from '../place'
import { duration } from '../time'

const HOURS = [6, 24, 72, 168] as const
const ROWS = 50

type Lane = Schemas['LaneCapacity']

const TONES: Record<Lane['verdict'], string> = { late: 'bad', unknown: 'warn', unproven: 'warn', enough: 'good' }
const SAYS: Record<Lane['verdict'], string> = { late: 'late', unknown: 'not known', unproven: 'not proven', enough: 'enough' }

export function Capacity() {
  const { query, set } = usePlace()
  const hours = Number(query.hours) || 24
  const loaded = useLoad(`capacity ${hours}`, (signal) => get('/v1/capacity', { query: { hours }, signal }), ['schedule.', 'node.', 'queue.'])
  return (
    <>
      <Title>Capacity</Title>
      <div class="row">
        <label class="field">
          Hours ahead
          <select value={String(hours)} onChange={(event) => set({ hours: event.currentTarget.value })}>
            {HOURS.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
      </div>
      <Show of={loaded}>
        {(data) => (
          <>
            <p class={`box ${data.ok ? (data.lanes.every((each) => each.verdict === 'enough') ? 'good' : 'warn') : 'bad'}`}>
              <strong>{verdictOf(data)}</strong> {count(data.slots, 'slot')} in the next {data.hours} hours; {count(data.nodes, 'worker')}{' '}
              {data.nodes === 1 ? 'runs' : 'run'}.
              {data.uncounted_slots > 0 && ` ${amount(data.uncounted_slots)} of them have targets that the forecast counts as one.`}
            </p>
            {data.shortfalls.length > 0 && (
              <>
                <h2>What falls behind</h2>
                <Table
                  label="What falls behind"
                  items={data.shortfalls.slice(0, ROWS)}
                  id={(each) => `${each.kind} ${each.name} ${each.at}`}
                  empty=""
                  columns={[
                    ['from', (each) => <Time at={each.at} isLong />],
                    ['how', (each) => <Told>{each.words}</Told>, 'wide'],
                    ['late by', (each) => (each.late_seconds === null ? 'for ever' : duration(each.late_seconds)), 'num'],
                    ['caught up', (each) => (each.caught_up_at ? <Time at={each.caught_up_at} /> : 'not in this time')],
                  ]}
                />
              </>
            )}
            <h2>Queues, limits and endpoints</h2>
            <Table
              label="Lanes"
              items={data.lanes.slice(0, ROWS)}
              id={(each) => `${each.kind} ${each.name}`}
              empty="Nothing is due, and nothing waits."
              columns={[
                [
                  'of',
                  (each) => (
                    <>
                      <span class="soft">{each.kind}</span>{' '}
                      {each.kind === 'queue' ? <A to={path('queues', each.name)}>{each.name}</A> : <Text>{each.name}</Text>}
                    </>
                  ),
                ],
                ['keeps up', (each) => <span class={TONES[each.verdict]}>{SAYS[each.verdict]}</span>],
                ['slots', (each) => amount(each.slots), 'num'],
                ['busiest minute', (each) => (each.peak_at ? amount(each.peak_slots) : '–'), 'num'],
                ['wait now', (each) => `${amount(each.waiting)}${each.waits_more ? '+' : ''}`, 'num'],
                ['a minute, at most', (each) => (each.per_minute === null ? '–' : amount(Math.round(each.per_minute))), 'num'],
                ['handled, 24 h', (each) => amount(each.handled), 'num'],
                ['why', (each) => <Told>{each.words}</Told>, 'wide'],
              ]}
            />
            <p class="soft">
              What was measured is since <Time at={data.measured_since} isLong />. What programs send besides schedules is not known.
            </p>
          </>
        )}
      </Show>
    </>
  )
}

function verdictOf({ ok, lanes }: Schemas['Capacity']): string {
  if (!ok) return 'The workers will fall behind.'
  if (lanes.some((each) => each.verdict === 'unknown')) return 'For some it is not known whether the workers keep up.'
  if (lanes.some((each) => each.verdict === 'unproven')) return 'The workers keep up, if they can do more than they ever did.'
  return 'The workers keep up.'
}
