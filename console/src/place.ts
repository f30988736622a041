// The URL holds the state of a page: what it shows, its filters, its cursor and its tenant.

import { useLocation } from 'preact-iso'
import { tenant } from './api'

type Values = Record<string, string | number | undefined>

/** The URL of a page of the console, for the tenant that is shown now. */
export function href(to: string, values: Values = {}): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries({ ...values, tenant: tenant.value || undefined })) {
    if (value !== undefined && value !== '') query.set(name, String(value))
  }
  const path = to === '/' ? '/' : `/console${to}`
  return query.size ? `${path}?${query}` : path
}

/** A path of the console; each part is escaped. */
export const path = (...parts: string[]): string => `/${parts.map(encodeURIComponent).join('/')}`

export function usePlace() {
  const { query: given, path: current, route } = useLocation()
  // What is empty in the URL is not there.
  const query: Record<string, string> = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== ''))
  return {
    query,
    go: (to: string, values?: Values) => route(href(to, values)),
    /** Changes the state in the URL. The cursor belongs to the filters, so it goes with them. */
    set: (changed: Values, replace = false) => {
      const next = new URLSearchParams()
      const all: Values = { ...query, cursor: undefined, ...changed }
      for (const [name, value] of Object.entries(all)) {
        if (value !== undefined && value !== '') next.set(name, String(value))
      }
      route(next.size ? `${current}?${next}` : current, replace)
    },
  }
}
