// Pictures of slots: a strip per day, and a month.

import { signOf } from './parts'
import { clockInZone, dayInZone } from './time'

export interface Mark {
  at: string
  state: string
  note?: string
}

interface Props {
  marks: Mark[]
  zone: string
  off: Set<string>
  onPick: (at: string) => void
}

const DAYS = 14
const MARKS_MAX = 600
const DAY_MS = 86_400_000
const WIDTH = 960
const LEFT = 90
const HEIGHT = 18

const secondsOfDay = (clock: string): number => {
  const [hour, minute, second] = clock.split(':').map(Number)
  return (hour ?? 0) * 3600 + (minute ?? 0) * 60 + (second ?? 0)
}

function byDay(marks: Mark[], zone: string): Map<string, Mark[]> {
  const found = new Map<string, Mark[]>()
  for (const mark of marks) {
    const day = dayInZone(mark.at, zone)
    found.set(day, [...(found.get(day) ?? []), mark])
  }
  return found
}

const nextDay = (day: string, step: number): string => new Date(Date.parse(`${day}T12:00:00Z`) + step * DAY_MS).toISOString().slice(0, 10)

const text = (mark: Mark, zone: string): string => `${clockInZone(mark.at, zone)} ${mark.state}${mark.note ? `: ${mark.note}` : ''}`

/** A row for each of the days around today; a mark is a slot, by sign and colour. */
export function DayStrips({ marks, zone, off, onPick }: Props) {
  const today = dayInZone(new Date(), zone)
  const found = byDay(marks, zone)
  const days = Array.from({ length: 2 * DAYS + 1 }, (_, index) => nextDay(today, index - DAYS))
  const x = (clock: string) => LEFT + (secondsOfDay(clock) / 86_400) * (WIDTH - LEFT - 8)
  let left = MARKS_MAX
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Timeline of days">
      <svg class="chart" viewBox={`0 0 ${WIDTH} ${(days.length + 1) * HEIGHT}`} role="group" aria-label="Slots by day and time of day">
        {[0, 6, 12, 18].map((hour) => (
          <g key={hour}>
            <line class="line" x1={x(`${hour}:0`)} x2={x(`${hour}:0`)} y1={HEIGHT} y2={(days.length + 1) * HEIGHT} />
            <text x={x(`${hour}:0`) + 2} y={12}>{`${String(hour).padStart(2, '0')}:00`}</text>
          </g>
        ))}
        {days.map((day, index) => {
          const y = (index + 2) * HEIGHT - 5
          const all = found.get(day) ?? []
          const shown = all.slice(0, Math.max(left, 0))
          left -= shown.length
          const notes = [...new Set(all.map((each) => each.note).filter((each) => each && /clock|DST|UTC/i.test(each)))]
          return (
            <g key={day}>
              <text x={2} y={y} class={day === today ? 'busy' : ''}>
                {day}
                {off.has(day) ? ' off' : ''}
                {notes.length ? ' ⚠' : ''}
                <title>{[off.has(day) ? 'day off' : '', ...notes].join(' ')}</title>
              </text>
              {shown.map((mark) => {
                const [sign, tone] = signOf(mark.state)
                return (
                  <text
                    key={mark.at}
                    x={x(clockInZone(mark.at, zone)) - 4}
                    y={y}
                    class={tone}
                    role="button"
                    aria-label={`${day} ${text(mark, zone)}`}
                    onClick={() => onPick(mark.at)}
                  >
                    {sign}
                    <title>{`${day} ${text(mark, zone)}. Click: why?`}</title>
                  </text>
                )
              })}
              {all.length > shown.length && (
                <text x={WIDTH - 60} y={y}>
                  +{all.length - shown.length}
                </text>
              )}
            </g>
          )
        })}
        <line class="now" x1={LEFT} x2={WIDTH} y1={(DAYS + 1) * HEIGHT} y2={(DAYS + 1) * HEIGHT} />
      </svg>
    </div>
  )
}

const NAMES = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']
const SHOWN = 3

/** A month with days off, and notes about the clocks on their very day. */
export function Month({ marks, zone, off, month, onMonth, onPick }: Props & { month?: string; onMonth: (month: string) => void }) {
  const today = dayInZone(new Date(), zone)
  const current = /^\d{4}-\d\d$/.test(month ?? '') ? month! : today.slice(0, 7)
  const first = `${current}-01`
  const before = (new Date(`${first}T12:00:00Z`).getUTCDay() + 6) % 7
  const cells = Array.from({ length: 42 }, (_, index) => nextDay(first, index - before))
  const weeks = Array.from({ length: 6 }, (_, week) => cells.slice(7 * week, 7 * week + 7)).filter((week) => week.some((day) => day.startsWith(current)))
  const found = byDay(marks, zone)
  return (
    <>
      <div class="row">
        <button type="button" onClick={() => onMonth(nextDay(first, -1).slice(0, 7))}>
          ← before
        </button>
        <strong>{current}</strong>
        <button type="button" onClick={() => onMonth(nextDay(first, 32).slice(0, 7))}>
          after →
        </button>
        <span class="soft">{zone}</span>
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label={`Calendar of ${current}`}>
        <table class="month">
          <thead>
            <tr>
              {NAMES.map((each) => (
                <th key={each} scope="col">
                  {each}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {weeks.map((week) => (
              <tr key={week[0]}>
                {week.map((day) => {
                  const all = day.startsWith(current) ? (found.get(day) ?? []) : []
                  const notes = [...new Set(all.map((each) => each.note).filter((each) => each))]
                  return (
                    <td key={day} class={`${off.has(day) ? 'off' : ''} ${day === today ? 'today' : ''}`}>
                      <span class={day.startsWith(current) ? '' : 'soft'}>{Number(day.slice(8))}</span>
                      {off.has(day) && <span class="soft"> day off</span>}
                      {all.slice(0, SHOWN).map((mark) => (
                        <div key={mark.at}>
                          <button
                            type="button"
                            class={`plain ${signOf(mark.state)[1]}`}
                            onClick={() => onPick(mark.at)}
                            aria-label={`${day} ${text(mark, zone)}`}
                          >
                            {signOf(mark.state)[0]} {clockInZone(mark.at, zone).slice(0, 5)}
                          </button>
                        </div>
                      ))}
                      {all.length > SHOWN && <span class="soft">+{all.length - SHOWN} more</span>}
                      {notes.map((each) => (
                        <div key={each} class="warn">
                          {each}
                        </div>
                      ))}
                    </td>
                  )
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}
