// The timing of a schedule: in words, as a form, and what it means for the next fires.

import type { InputHTMLAttributes } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { type Problem, post, type Schemas } from './api'
import { Failure, Table, Time } from './parts'
import { browserZone } from './time'

export type Timing = Record<string, unknown>
type Answer = Schemas['ScheduleAnswer']
type Preview = Schemas['Preview']

const KINDS = ['cron', 'every', 'daily', 'weekly', 'monthly', 'once', 'rrule'] as const
type Kind = (typeof KINDS)[number]
const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
const FIELDS = ['cron_expr', 'interval_seconds', 'interval_minutes', 'daily_time', 'weekly_time', 'monthly_time', 'once_at', 'rrule'] as const
const RULES = ['timezone', 'dst', 'start_at', 'end_at', 'max_firings', 'exclude', 'calendar', 'roll', 'interval_mode'] as const

/** What a preview needs to know of a schedule. */
export function ruleOf(schedule: Answer): Timing {
  const given: Timing = {}
  for (const name of [...FIELDS, ...RULES]) {
    const value = schedule[name]
    if (value === null || value === undefined || (Array.isArray(value) && !value.length)) continue
    if (name === 'interval_mode' && !schedule.interval_seconds && !schedule.interval_minutes) continue
    given[name] = value
  }
  // An interval counts from its start or its creation, also in a preview.
  if (!given.start_at && (given.interval_seconds || given.interval_minutes)) given.start_at = schedule.created_at
  return given
}

const clock = (at: Record<string, unknown>): string => `${String(at.hour).padStart(2, '0')}:${String(at.minute).padStart(2, '0')}`

/** A timing in short, for lists. */
export function shortTiming(schedule: Answer): string {
  if (schedule.cron_expr) return schedule.cron_expr
  if (schedule.interval_seconds) return `every ${schedule.interval_seconds} s`
  if (schedule.interval_minutes) return `every ${schedule.interval_minutes} min`
  if (schedule.daily_time) return `daily at ${clock(schedule.daily_time)}`
  if (schedule.weekly_time) {
    const days = [schedule.weekly_time.day_of_week].flat() as number[]
    return `${days.map((day) => DAYS[day]).join(', ')} at ${clock(schedule.weekly_time)}`
  }
  if (schedule.monthly_time) return `monthly on ${String(schedule.monthly_time.day)} at ${clock(schedule.monthly_time)}`
  if (schedule.once_at) return `once at ${schedule.once_at}`
  return schedule.rrule ?? schedule.kind
}

function kindOf(rule: Timing): Kind {
  if (rule.interval_seconds || rule.interval_minutes) return 'every'
  if (rule.daily_time) return 'daily'
  if (rule.weekly_time) return 'weekly'
  if (rule.monthly_time) return 'monthly'
  if (rule.once_at) return 'once'
  return rule.rrule ? 'rrule' : 'cron'
}

interface Values {
  kind: Kind
  cron: string
  seconds: string
  time: string
  days: number[]
  day: string
  once: string
  rrule: string
  start: string
  timezone: string
}

function valuesOf(rule: Timing): Values {
  const at = (rule.daily_time ?? rule.weekly_time ?? rule.monthly_time) as Record<string, unknown> | undefined
  const weekly = rule.weekly_time as Record<string, unknown> | undefined
  const minutes = Number(rule.interval_minutes ?? 0)
  return {
    kind: kindOf(rule),
    cron: String(rule.cron_expr ?? '0 9 * * MON-FRI'),
    seconds: String(rule.interval_seconds ?? (minutes * 60 || 300)),
    time: at ? clock(at) : '09:00',
    days: weekly ? ([weekly.day_of_week].flat() as number[]) : [1],
    day: String((rule.monthly_time as Record<string, unknown> | undefined)?.day ?? '1'),
    once: String(rule.once_at ?? ''),
    rrule: String(rule.rrule ?? 'FREQ=WEEKLY;BYDAY=MO'),
    start: String(rule.start_at ?? new Date().toISOString()),
    timezone: String(rule.timezone ?? browserZone),
  }
}

function timingOf(values: Values): Timing {
  const [hour, minute] = values.time.split(':').map(Number)
  const { timezone } = values
  switch (values.kind) {
    case 'cron':
      return { cron_expr: values.cron, timezone }
    case 'every':
      return { interval_seconds: Number(values.seconds), timezone }
    case 'daily':
      return { daily_time: { hour, minute }, timezone }
    case 'weekly':
      return { weekly_time: { day_of_week: values.days, hour, minute }, timezone }
    case 'monthly':
      return { monthly_time: { day: values.day === 'last' ? 'last' : Number(values.day), hour, minute }, timezone }
    case 'once':
      return { once_at: values.once, timezone }
    case 'rrule':
      return { rrule: values.rrule, start_at: values.start, timezone }
  }
}

/** The fields of a timing. `onTiming` gets the timing with each change. */
export function TimingFields({ rule, onTiming }: { rule: Timing; onTiming: (timing: Timing) => void }) {
  const [values, setValues] = useState(() => valuesOf(rule))
  const change = (part: Partial<Values>) => {
    const next = { ...values, ...part }
    setValues(next)
    onTiming(timingOf(next))
  }
  useEffect(() => onTiming(timingOf(values)), [])
  const text = (name: keyof Values, label: string, more: InputHTMLAttributes<HTMLInputElement> = {}) => (
    <label class="field">
      {label}
      <input value={values[name] as string} onInput={(event) => change({ [name]: event.currentTarget.value })} required {...more} />
    </label>
  )
  const { kind } = values
  return (
    <div class="row">
      <label class="field">
        When
        <select value={kind} onChange={(event) => change({ kind: event.currentTarget.value as Kind })}>
          {KINDS.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      {kind === 'cron' && text('cron', 'Cron expression')}
      {kind === 'every' && text('seconds', 'Seconds between two fires', { type: 'number', min: 1 })}
      {(kind === 'daily' || kind === 'weekly' || kind === 'monthly') && text('time', 'Time of day', { type: 'time' })}
      {kind === 'weekly' && (
        <fieldset class="row">
          <legend class="soft">Days</legend>
          {DAYS.map((name, day) => (
            <label class="check" key={name}>
              <input
                type="checkbox"
                checked={values.days.includes(day)}
                onChange={(event) => change({ days: event.currentTarget.checked ? [...values.days, day].sort() : values.days.filter((each) => each !== day) })}
              />
              {name.slice(0, 3)}
            </label>
          ))}
        </fieldset>
      )}
      {kind === 'monthly' && text('day', 'Day: 1 to 31, or last')}
      {kind === 'once' && text('once', 'Date and time, such as 2027-01-31T09:00')}
      {kind === 'rrule' && text('rrule', 'RRULE')}
      {kind === 'rrule' && text('start', 'Starts at')}
      {text('timezone', 'Time zone', { list: 'zones' })}
      <datalist id="zones">
        {Intl.supportedValuesOf('timeZone').map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
    </div>
  )
}

const TYPING_MS = 300

/** The preview of a rule; it follows what is typed. */
export function usePreview(rule: Timing | undefined, number: number): { preview?: Preview; error?: Problem } {
  const [state, setState] = useState<{ preview?: Preview; error?: Problem }>({})
  const key = JSON.stringify(rule)
  const isTyped = useRef(false)
  useEffect(() => {
    if (!rule) return
    const stop = new AbortController()
    const wait = isTyped.current ? TYPING_MS : 0
    isTyped.current = true
    const timer = setTimeout(() => {
      post('/v1/schedules/preview', { body: { ...rule, limit: number }, signal: stop.signal })
        .then((preview) => setState({ preview }))
        .catch((error: Problem) => !stop.signal.aborted && setState({ error }))
    }, wait)
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [key, number])
  return state
}

/** What a timing means: words, warnings and fires in its zone and UTC. */
export function Meaning({ preview, error, zone, onPick }: { preview?: Preview; error?: Problem; zone: string; onPick?: (at: string) => void }) {
  if (error) return <Failure error={error} />
  if (!preview)
    return (
      <p class="soft" role="status">
        Computing the next fires …
      </p>
    )
  return (
    <>
      <p class="words">{preview.description}</p>
      {preview.warnings.map((each) => (
        <p key={each} class="box warn">
          {each}
        </p>
      ))}
      <Table
        label="Next fires"
        items={preview.fires}
        id={(each) => each.fire_at}
        empty="It does not fire any more."
        columns={[
          [
            'local time',
            (each) => (
              <>
                {onPick ? (
                  <button type="button" class="plain" onClick={() => onPick(each.fire_at)}>
                    {each.local.replace('T', ' ')}
                  </button>
                ) : (
                  each.local.replace('T', ' ')
                )}{' '}
                <span class="soft">{zone}</span>
              </>
            ),
          ],
          ['UTC', (each) => <Time at={each.fire_at} zone="UTC" />],
          ['clock change', (each) => each.note && <span class="warn">{each.note}</span>],
        ]}
      />
    </>
  )
}
