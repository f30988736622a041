// Live updates: one event stream for all tabs of the browser, whose events are hints to read again.
//
// The visible tab that holds the lock reads the stream and tells the others by a broadcast channel.
// Hints are passed on at most twice a second. Pages also read again every few seconds, since not
// everything has an event; without a stream that is all.

import { effect, signal } from '@preact/signals'
import { headers, session, tenant } from './api'

const HINT_MS = 500
const RETRY_MS = 5_000
export const POLL_MS = 5_000

export const isPaused = signal(false)
export const isLive = signal(false)
/** Rises when a page should read again; the names of the latest events. */
export const hint = signal<{ number: number; types: string[] }>({ number: 0, types: [] })

const isVisible = signal(!document.hidden)
document.addEventListener('visibilitychange', () => {
  isVisible.value = !document.hidden
})

let collected = new Set<string>()
let isCollecting = false

function note(type: string): void {
  if (isPaused.value || !isVisible.value) return
  collected.add(type)
  if (isCollecting) return
  isCollecting = true
  setTimeout(() => {
    isCollecting = false
    const types = [...collected]
    collected = new Set()
    // It may have been paused since.
    if (!isPaused.value && isVisible.value) hint.value = { number: hint.value.number + 1, types }
  }, HINT_MS)
}

/** Makes every part of the page read again, after a change that concerns them all. */
export function readAgain(): void {
  hint.value = { number: hint.value.number + 1, types: ['poll'] }
}

const wait = (ms: number, stop: AbortSignal) =>
  new Promise<void>((resolve) => {
    const id = setTimeout(resolve, ms)
    stop.addEventListener('abort', () => {
      clearTimeout(id)
      resolve()
    })
  })

/** Reads the stream until it ends. EventSource cannot send the header that names a tenant. */
async function read(stop: AbortSignal, last: { id: string }, tell: (type: string) => void): Promise<void> {
  const resume: Record<string, string> = last.id ? { 'Last-Event-ID': last.id } : {}
  const answer = await fetch('/v1/stream', { headers: { ...headers(), ...resume }, signal: stop })
  if (!answer.ok || !answer.body) throw new Error(answer.statusText)
  isLive.value = true
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const parts = (rest + value).split('\n\n')
    rest = parts.pop() ?? ''
    for (const part of parts) {
      last.id = /^id: (.*)$/m.exec(part)?.[1] ?? last.id
      const type = /^event: (.*)$/m.exec(part)?.[1]
      if (type && type !== 'closed') tell(type)
    }
  }
}

async function lead(stop: AbortSignal, tell: (type: string) => void): Promise<void> {
  const last = { id: '' }
  while (!stop.aborted) {
    try {
      await read(stop, last, tell)
    } catch {
      // The pages poll; the stream is tried again.
    }
    isLive.value = false
    await wait(RETRY_MS, stop)
  }
}

export function start(): void {
  effect(() => {
    const who = session.value
    const name = `tickwork ${who?.key_id} ${tenant.value}`
    if (!who || isPaused.value || !isVisible.value || !('locks' in navigator)) return
    const stop = new AbortController()
    const channel = new BroadcastChannel(name)
    channel.onmessage = (event: MessageEvent<string>) => {
      isLive.value = true
      note(event.data)
    }
    const tell = (type: string) => {
      channel.postMessage(type)
      note(type)
    }
    navigator.locks.request(name, { signal: stop.signal }, () => lead(stop.signal, tell)).catch(() => undefined)
    return () => {
      stop.abort()
      channel.close()
      isLive.value = false
    }
  })
  setInterval(() => {
    if (session.value && !isPaused.value && isVisible.value) note('poll')
  }, POLL_MS)
}
