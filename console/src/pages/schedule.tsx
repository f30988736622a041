// One schedule: when it fires, what became of its slots, why, and changes to it.

import { useState } from 'preact/hooks'
import { get, getWithVersion, type Problem, patch, post, remove, type Schemas } from '../api'
import { DayStrips, type Mark, Month } from '../calendar'
import { stringify } from '../json'
import { useList, useLoad } from '../load'
import { A, Act, ask, count, Facts, Failure, Filter, Input, Json, List, Show, State, say, Table, Text, Time, Title, Told } from '../parts'
import { path, usePlace } from '../place'
import { between, duration } from '../time'
import { Meaning, ruleOf, type Timing, TimingFields, usePreview } from '../timing'

type Answer = Schemas['ScheduleAnswer']
type Firing = Schemas['FiringAnswer']
const STATUSES = ['planned', 'running', 'succeeded', 'partial', 'failed', 'dead', 'skipped', 'expired'] as const
const DAY_MS = 86_400_000
const AHEAD_MAX = 1_000
const BACK_MAX = 200

export function Schedule({ id }: { id: string }) {
  const { query, set } = usePlace()
  const loaded = useLoad(id, (signal) => getWithVersion('/v1/schedules/{schedule}', { path: { schedule: id }, signal }), ['schedule.', 'firing.'])
  const leave = () => {
    loaded.reload()
    set({ edit: undefined })
  }
  return (
    <Show of={loaded}>
      {({ value, version }) => (query.edit ? <Edit schedule={value} version={version} onDone={leave} /> : <Whole schedule={value} reload={loaded.reload} />)}
    </Show>
  )
}

function Whole({ schedule, reload }: { schedule: Answer; reload: () => void }) {
  const { query, set } = usePlace()
  const zone = schedule.timezone
  const { preview, error } = usePreview(ruleOf(schedule), 10)
  const pick = (at: string) => set({ at, cursor: query.cursor })
  return (
    <>
      <Title kind="Schedule" note={<State is={schedule.status} />}>
        {schedule.name ?? schedule.id}
      </Title>
      <Actions schedule={schedule} reload={reload} />
      {schedule.last_error && (
        <p class={`box ${schedule.status === 'parked' ? 'bad' : 'warn'}`}>
          <strong>Last error:</strong> <Text>{schedule.last_error}</Text> ({count(schedule.error_count, 'failure')} in a row)
        </p>
      )}
      <Facts
        of={[
          ['zone', zone],
          ['next fire', schedule.next_fire_at && <Time at={schedule.next_fire_at} zone={zone} isLong />],
          ['last fire', schedule.last_fire_at && <Time at={schedule.last_fire_at} zone={zone} isLong />],
          ['last status', schedule.last_status && <State is={schedule.last_status} />],
          ['fired', schedule.fired],
          [
            'target',
            <code>
              <Text>{targetText(schedule)}</Text>
            </code>,
          ],
          ['missed slots', inWords(schedule.missed as Record<string, unknown>)],
          ['overlap', schedule.overlap],
          ['owner', schedule.owner],
          ['calendar', schedule.calendar],
          ['id', <code>{schedule.id}</code>],
        ]}
      />
      <h2>Next ten fires</h2>
      {schedule.status === 'active' ? (
        <Meaning preview={preview} error={error} zone={zone} onPick={pick} />
      ) : (
        <p class="soft">
          {preview?.description} It is {schedule.status}, so it does not fire.
        </p>
      )}
      <Why id={schedule.id} zone={zone} at={query.at ?? ''} onPick={pick} />
      <Pictures schedule={schedule} onPick={pick} />
      <History id={schedule.id} zone={zone} onPick={pick} />
      <h2>Payload</h2>
      <Json value={schedule.payload ?? null} label="Payload" />
    </>
  )
}

/** `{policy: 'fire_late', cap: 10}` as "fire late, cap 10". */
const inWords = (fields: Record<string, unknown>): string =>
  Object.entries(fields)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => (name === 'policy' ? '' : `${name.replaceAll('_', ' ')} `) + String(value).replaceAll('_', ' '))
    .join(', ')

function targetText(schedule: Answer): string {
  const { type, queue, url } = schedule.target as Record<string, unknown>
  return `${String(type ?? '')} ${String(queue ?? url ?? stringify(schedule.target))}`
}

function Actions({ schedule, reload }: { schedule: Answer; reload: () => void }) {
  const { set, go } = usePlace()
  const named = { path: { schedule: schedule.id } }
  const name = schedule.name ?? schedule.id
  const done = (text: string) => {
    say(text)
    reload()
  }
  if (schedule.status === 'deleted') return null
  return (
    <div class="row">
      {schedule.status === 'active' ? (
        <Act needs="manage" onAct={() => post('/v1/schedules/{schedule}/pause', named).then(() => done('Paused.'))}>
          Pause
        </Act>
      ) : schedule.status === 'completed' ? null : (
        <Act needs="manage" isMain onAct={() => post('/v1/schedules/{schedule}/resume', named).then(() => done('Resumed.'))}>
          Resume
        </Act>
      )}
      <Act needs="manage" onAct={() => post('/v1/schedules/{schedule}/trigger', named).then(() => done('Triggered: it runs once now.'))}>
        Run now
      </Act>
      <Act needs="manage" onAct={() => set({ edit: 'yes' })}>
        Change the timing
      </Act>
      <Act
        needs="manage"
        onAct={() =>
          ask({
            title: `Run past slots of ${name}`,
            text: 'Slots in this range that did not succeed run now, each as a run of its own.',
            fields: (
              <>
                <Input label="From (UTC, such as 2027-01-01T00:00:00Z)" name="from" required value={new Date(Date.now() - DAY_MS).toISOString()} />
                <Input label="To" name="to" required value={new Date().toISOString()} />
              </>
            ),
            act: 'Backfill',
            run: async ({ from, to }) => {
              const { slots } = await post('/v1/schedules/{schedule}/backfill', { ...named, body: { from, to } })
              done(`${count(slots.length, 'slot')} will run.`)
            },
          })
        }
      >
        Backfill
      </Act>
      <Act
        needs="manage"
        isDanger
        onAct={() =>
          ask({
            title: `Delete the schedule ${name}?`,
            text: 'It will not fire again. Its history stays for 30 days.',
            act: 'Delete 1 schedule',
            isDanger: true,
            run: async () => {
              await remove('/v1/schedules/{schedule}', named)
              say('Deleted.')
              go('/schedules')
            },
          })
        }
      >
        Delete
      </Act>
    </div>
  )
}

/** Why did it fire, or not, at a time? */
function Why({ id, zone, at, onPick }: { id: string; zone: string; at: string; onPick: (at: string) => void }) {
  const loaded = useLoad(
    `why ${id} ${at}`,
    (signal) => get('/v1/schedules/{schedule}/why', { path: { schedule: id }, query: { at: at || undefined }, signal }),
    ['firing.'],
  )
  return (
    <section id="why" aria-label="Why">
      <h2>Why?</h2>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault()
          onPick(String(new FormData(event.currentTarget).get('at')))
        }}
      >
        <Input label="Why did it fire, or not, at (empty: the latest slot)" name="at" value={at} placeholder="2027-01-01T09:00:00Z" />
        <button type="submit">Ask</button>
      </form>
      <Show of={loaded}>
        {(why) => (
          <div class="box">
            <p>
              <strong>
                <Told>{why.answer}</Told>
              </strong>
            </p>
            <p class="soft">
              <Time at={why.at} zone={zone} isLong /> · {why.code}
            </p>
            <p class="row">
              {why.previous_slot && (
                <button type="button" onClick={() => onPick(why.previous_slot!)}>
                  ← slot before
                </button>
              )}
              {why.next_slot && (
                <button type="button" onClick={() => onPick(why.next_slot!)}>
                  slot after →
                </button>
              )}
            </p>
          </div>
        )}
      </Show>
    </section>
  )
}

const lateBy = (firing: Firing): number => (firing.started_at ? between(firing.due_at, firing.started_at) : 0)

/** Fourteen days back and ahead, and a month. */
function Pictures({ schedule, onPick }: { schedule: Answer; onPick: (at: string) => void }) {
  const { query, set } = usePlace()
  const zone = schedule.timezone
  const past = useLoad(
    `past ${schedule.id}`,
    (signal) => get('/v1/schedules/{schedule}/firings', { path: { schedule: schedule.id }, query: { limit: BACK_MAX }, signal }),
    ['firing.', 'schedule.'],
  )
  const { preview } = usePreview(schedule.status === 'active' ? ruleOf(schedule) : undefined, AHEAD_MAX)
  const off = useLoad(`off ${schedule.calendar}`, async (signal) =>
    schedule.calendar ? (await get('/v1/calendars/{calendar}', { path: { calendar: schedule.calendar }, signal })).days : [],
  )
  const grace = Number((schedule.missed as Record<string, unknown>).grace_seconds ?? 60)
  const seen = new Map<string, Mark>()
  for (const each of [...(past.data?.items ?? [])].reverse()) {
    const isLate = each.status === 'succeeded' && (each.catch_up || lateBy(each) > grace)
    seen.set(each.slot, { at: each.slot, state: isLate ? 'late' : each.status, note: each.reason ?? undefined })
  }
  for (const each of preview?.fires ?? []) {
    if (!seen.has(each.fire_at)) seen.set(each.fire_at, { at: each.fire_at, state: 'planned', note: each.note ?? undefined })
  }
  const marks = [...seen.values()]
  const last = preview?.fires[AHEAD_MAX - 1]
  const isCut = last !== undefined && Date.parse(last.fire_at) < Date.now() + 14 * DAY_MS
  const shown = query.view === 'month' ? 'month' : 'days'
  const daysOff = new Set([...(schedule.exclude ?? []), ...(off.data ?? [])])
  return (
    <section aria-label="Timeline">
      <h2>Fourteen days back and ahead</h2>
      <div class="row" role="group" aria-label="View">
        <button type="button" aria-pressed={shown === 'days'} onClick={() => set({ view: undefined })}>
          Days
        </button>
        <button type="button" aria-pressed={shown === 'month'} onClick={() => set({ view: 'month' })}>
          Month
        </button>
        <span class="soft">
          {['succeeded', 'late', 'skipped', 'dead', 'planned'].map((each) => (
            <span key={each}>
              <State is={each} />{' '}
            </span>
          ))}
        </span>
      </div>
      {shown === 'month' ? (
        <Month marks={marks} zone={zone} off={daysOff} month={query.month} onMonth={(month) => set({ month })} onPick={onPick} />
      ) : (
        <DayStrips marks={marks} zone={zone} off={daysOff} onPick={onPick} />
      )}
      {(past.data?.next_cursor || isCut) && (
        <p class="soft">
          Shown are the latest {BACK_MAX} records and the next {AHEAD_MAX.toLocaleString('en')} fires.
        </p>
      )}
    </section>
  )
}

function History({ id, zone, onPick }: { id: string; zone: string; onPick: (at: string) => void }) {
  const { query } = usePlace()
  const { status } = query
  const loaded = useList(
    `firings ${id} ${status}`,
    (page, signal) => get('/v1/schedules/{schedule}/firings', { path: { schedule: id }, query: { status, ...page }, signal }),
    ['firing.', 'schedule.'],
    { limit: 50 },
  )
  return (
    <section aria-label="History">
      <h2>History</h2>
      <div class="row">
        <Filter name="status" label="Status" choices={STATUSES} />
      </div>
      <List
        label="History"
        of={loaded}
        id={(each) => each.id}
        empty={status ? `No slot on record is ${status}.` : 'No slot is on record yet.'}
        columns={[
          [
            'slot: zone, UTC',
            (each) => (
              <>
                <button type="button" class="plain" onClick={() => onPick(each.slot)}>
                  <Time at={each.slot} zone={zone} />
                </button>
                {each.count > 1 && <span class="soft"> and {count(each.count - 1, 'more slot')}</span>}
              </>
            ),
          ],
          [
            'status',
            (each) => (
              <>
                <State is={each.status} /> {each.catch_up && <span class="warn">catch-up</span>}
              </>
            ),
          ],
          ['attempt', (each) => each.attempt, 'num'],
          ['late by', (each) => (each.started_at ? duration(Math.max(lateBy(each), 0)) : '–'), 'num'],
          ['took', (each) => (each.started_at && each.finished_at ? duration(between(each.started_at, each.finished_at)) : '–'), 'num'],
          [
            'result',
            (each) => (
              <>
                <Text>{each.reason ?? each.excerpt}</Text> {each.result_code}
                {each.channels.map((channel) => (
                  <div key={channel.channel}>
                    {channel.channel}: {channel.status} <Text>{channel.detail ?? ''}</Text>
                  </div>
                ))}
              </>
            ),
          ],
        ]}
      />
    </section>
  )
}

const COMPARED = 20

/** The timing as a form, with the slots that would move. */
function Edit({ schedule, version, onDone }: { schedule: Answer; version: string; onDone: () => void }) {
  const before = ruleOf(schedule)
  const [timing, setTiming] = useState<Timing>()
  const [error, setError] = useState<Problem>()
  const kept: Timing = {}
  for (const name of ['dst', 'exclude', 'calendar', 'roll'] as const) if (before[name] !== undefined) kept[name] = before[name]
  const old = usePreview(before, COMPARED)
  const next = usePreview(timing && { ...kept, ...timing }, COMPARED)
  const save = async () => {
    try {
      await patch('/v1/schedules/{schedule}', { path: { schedule: schedule.id }, body: timing, version })
      say('Saved. Slots that are due or running go on as planned.')
      onDone()
    } catch (failed) {
      setError(failed as Problem)
    }
  }
  return (
    <>
      <Title>{`Change the timing of ${schedule.name ?? schedule.id}`}</Title>
      <TimingFields rule={before} onTiming={setTiming} />
      {next.error && <Failure error={next.error} />}
      {next.preview && (
        <>
          <p>
            Before: <strong>{old.preview?.description}</strong>
            <br />
            After: <strong>{next.preview.description}</strong>
          </p>
          <Moves before={old.preview?.fires ?? []} after={next.preview.fires} zone={String(timing?.timezone ?? 'UTC')} />
        </>
      )}
      {error && <Failure error={error} />}
      <div class="row">
        <Act needs="manage" isMain onAct={save}>
          Save the timing
        </Act>
        <A to={path('schedules', schedule.id)}>Cancel</A>
      </div>
    </>
  )
}

/** Which of the next slots go, come and stay. */
function Moves({ before, after, zone }: { before: Schemas['UpcomingSlot'][]; after: Schemas['UpcomingSlot'][]; zone: string }) {
  const was = new Set(before.map((each) => each.fire_at))
  const is = new Set(after.map((each) => each.fire_at))
  // Beyond the end of the shorter list nothing can be compared.
  const end = [before.at(-1)?.fire_at, after.at(-1)?.fire_at].filter((each) => each !== undefined).sort()[0] ?? ''
  const all = [...new Set([...was, ...is])].filter((at) => at <= end || before.length < COMPARED || after.length < COMPARED).sort()
  const changed = all.filter((at) => was.has(at) !== is.has(at)).length
  return (
    <>
      <h2>{changed ? `${count(changed, 'slot')} of the next ${all.length} change` : 'No slot moves'}</h2>
      <Table
        label="Slots that move"
        items={all.slice(0, 2 * COMPARED)}
        id={(at) => at}
        empty="Neither the old nor the new timing fires."
        columns={[
          ['slot', (at) => <Time at={at} zone={zone} />],
          [
            'change',
            (at) =>
              was.has(at) && is.has(at) ? <span class="soft">= stays</span> : is.has(at) ? <span class="good">+ is new</span> : <span class="bad">− goes</span>,
          ],
        ]}
      />
    </>
  )
}
