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
  year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit',
}

export const inZone = (at: string | Date, zone: string): string => format(zone, WHOLE).format(new Date(at))
export const dayInZone = (at: string | Date, zone: string): string =>
  format(zone, { year: 'numeric', month: '2-digit', day: '2-digit' }).format(new Date(at))
export const clockInZone = (at: string | Date, zone: string): string =>
  format(zone, { hour: '2-digit', minute: '2-digit', second: '2-digit' }).format(new Date(at))
export const inUtc = (at: string | Date): string => `${inZone(at, 'UTC')} UTC`

export function duration(seconds: number): string {
  const size = Math.abs(seconds)
  if (size < 1) return `${Math.round(size * 1000)} ms`
  if (size < 60) return `${Math.round(size)} s`
  if (size < 3600) return `${Math.floor(size / 60)} min ${Math.round(size % 60)} s`
  if (size < 86400) return `${Math.floor(size / 3600)} h ${Math.floor((size % 3600) / 60)} min`
  return `${Math.floor(size / 86400)} d ${Math.floor((size % 86400) / 3600)} h`
}

export function ago(at: string, now = Date.now()): string {
  const seconds = (now - Date.parse(at)) / 1000
  return seconds >= 0 ? `${duration(seconds)} ago` : `in ${duration(seconds)}`
}

export const between = (from: string, to: string): number => (Date.parse(to) - Date.parse(from)) / 1000
