// How a page gets its data: read when the inputs change, and read again on hints.

import { useEffect, useRef, useState } from 'preact/hooks'
import { Problem, tenant } from './api'
import { hint } from './live'
import { usePlace } from './place'

/** Rows of a list, unless a page has several lists. */
export const ROWS = 100
const SHORT_PAGES_MAX = 10

export interface Loaded<T> {
  data: T | undefined
  error: Problem | undefined
  isLoading: boolean
  reload: () => void
}

/** Reads what `name` names, of the tenant that is looked at. Hints whose names begin with one of `topics` make it read again. */
export function useLoad<T>(name: string, read: (stop: AbortSignal) => Promise<T>, topics: string[] = []): Loaded<T> {
  const key = `${tenant.value} ${name}` // What another tenant has is read again.
  const [state, setState] = useState<{ key: string; data?: T; error?: Problem }>({ key: '' })
  const [round, setRound] = useState(0)
  const running = useRef(false)
  useEffect(() => {
    const stop = new AbortController()
    running.current = true
    read(stop.signal)
      .then((data) => setState({ key, data }))
      .catch((error: unknown) => {
        if (stop.signal.aborted) return
        const problem = error instanceof Problem ? error : new Problem(0, 'page', String(error))
        setState((before) => ({ key, data: before.key === key ? before.data : undefined, error: problem }))
      })
      .finally(() => {
        if (!stop.signal.aborted) running.current = false
      })
    return () => {
      stop.abort()
      running.current = false
    }
  }, [key, round])
  useEffect(() => {
    if (!topics.length) return
    return hint.subscribe(({ number, types }) => {
      const concerns = types.some((type) => type === 'poll' || topics.some((topic) => type.startsWith(topic)))
      if (number && concerns && !running.current) setRound((before) => before + 1)
    })
  }, [topics.join()])
  const isOwn = state.key === key
  return {
    data: isOwn ? state.data : undefined,
    error: isOwn ? state.error : undefined,
    isLoading: !isOwn || (state.data === undefined && !state.error),
    reload: () => setRound((before) => before + 1),
  }
}

export interface Page<T> {
  items: readonly T[]
  next_cursor?: string | null
}

export type ReadPage<T> = (page: { cursor?: string; limit: number }, stop: AbortSignal) => Promise<Page<T>>

/** Reads a page of a list. Its cursor is in the URL, by the name `cursor` or another one. */
export function useList<T>(key: string, read: ReadPage<T>, topics: string[] = [], { name = 'cursor', limit = ROWS } = {}): Loaded<Page<T>> {
  const { query } = usePlace()
  const cursor = query[name]
  return useLoad(`${key} ${cursor}`, (stop) => readOn(read, { cursor, limit }, stop), topics)
}

/** Reads on while a page is short: a filtered list ends its page after a number of rows that do not fit. */
async function readOn<T>(read: ReadPage<T>, page: { cursor?: string; limit: number }, stop: AbortSignal): Promise<Page<T>> {
  let found = await read(page, stop)
  for (let round = 1; round < SHORT_PAGES_MAX && found.next_cursor && found.items.length < page.limit; round++) {
    const more = await read({ cursor: found.next_cursor, limit: page.limit - found.items.length }, stop)
    found = { items: [...found.items, ...more.items], next_cursor: more.next_cursor }
  }
  return found
}
