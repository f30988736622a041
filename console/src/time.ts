// Times: each is shown in a zone and in UTC.

const formats = new Map<string, Intl.DateTimeFormat>()

export const browserZone = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC'

function format(zone: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const name = `${zone} ${options.year} ${options.hour}`
  let found = formats.get(name)
  if (!found) {
    try {
      found = new Intl.DateTimeFormat('sv-SE', { timeZone: zone, ...options })
    } catch {
      found = new Intl.DateTimeFormat('sv-SE', { timeZone: 'UTC', ...options })
    }
    formats.set(name, found)
  }
  return found
}

const WHOLE: Intl.DateTimeFormatOptions = {
  year: 'numeric',
  month: '2-digit',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
}

export const inZone = (at: string | Date, zone: string): string => format(zone, WHOLE).format(new Date(at))
export const dayInZone = (at: string | Date, zone: string): string => format(zone, { year: 'numeric', month: '2-digit', day: '2-digit' }).format(new Date(at))
export const clockInZone = (at: string | Date, zone: string): string =>
  format(zone, { hour: '2-digit', minute: '2-digit', second: '2-digit' }).format(new Date(at))
export const inUtc = (at: string | Date): string => `${inZone(at, 'UTC')} UTC`

/** A length of time, rounded to its smaller unit: 119.6 s are 2 min. */
export function duration(seconds: number): string {
  const exact = Math.abs(seconds)
  if (exact < 0.9995) return `${Math.round(exact * 1000)} ms`
  const size = exact < 3600 ? Math.round(exact) : Math.round(exact / 60) * 60
  if (size < 60) return `${size} s`
  const [whole, name, rest, part] =
    size < 3600 ? ([60, 'min', 1, 's'] as const) : size < 86400 ? ([3600, 'h', 60, 'min'] as const) : ([86400, 'd', 3600, 'h'] as const)
  const left = Math.floor((size % whole) / rest)
  return `${Math.floor(size / whole)} ${name}${left ? ` ${left} ${part}` : ''}`
}

/** The largest unit of a length of time. */
const briefly = (seconds: number): string => duration(seconds).split(' ').slice(0, 2).join(' ')

const relative = (at: string, now: number, words: (seconds: number) => string): string => {
  const seconds = (now - Date.parse(at)) / 1000
  if (Math.abs(seconds) < 1) return 'now'
  return seconds >= 0 ? `${words(seconds)} ago` : `in ${words(seconds)}`
}

export const ago = (at: string, now = Date.now()): string => relative(at, now, duration)

/** The same in one unit, for lists. */
export const agoBriefly = (at: string, now = Date.now()): string => relative(at, now, briefly)

export const between = (from: string, to: string): number => (Date.parse(to) - Date.parse(from)) / 1000

export const MINUTES = 30

/** The minutes of a chart, as minutes since 1970. */
export const minutesShown = (): number[] => {
  const last = Math.floor(Date.now() / 60_000)
  return Array.from({ length: MINUTES }, (_, index) => last - MINUTES + 1 + index)
}

type Minute = { label: string; counts: Record<string, number> }

/** What was counted in each minute that has a count. */
export const byMinute = (minutes: readonly Minute[]): Map<number, Record<string, number>> =>
  new Map(minutes.map(({ label, counts }) => [Date.parse(`${label.replace(' ', 'T')}Z`) / 60_000, counts]))

/** One count of each of the last minutes. */
export const lastMinutes = (minutes: readonly Minute[], name: string): number[] => {
  const known = byMinute(minutes)
  return minutesShown().map((minute) => known.get(minute)?.[name] ?? 0)
}
