// How somebody wants to see the console; this browser remembers it.

import { effect, type Signal, signal } from '@preact/signals'
import { browserZone } from './time'

const TICK_MS = 5_000

/** A choice that stays when the page is loaded again, as far as the browser lets pages keep anything. */
function kept<T extends string>(name: string, choices: readonly T[]): Signal<T> {
  const chosen = signal(choices[0]!)
  try {
    const known = localStorage.getItem(name) as T | null
    if (known && choices.includes(known)) chosen.value = known
  } catch {
    // It keeps nothing.
  }
  effect(() => {
    const { value } = chosen
    try {
      localStorage.setItem(name, value)
    } catch {
      // It keeps nothing.
    }
  })
  return chosen
}

export const CLOCKS = browserZone === 'UTC' ? (['relative', 'UTC'] as const) : (['relative', 'local', 'UTC'] as const)
/** How times in lists are shown. */
export const clock = kept<'relative' | 'local' | 'UTC'>('tickwork.clock', CLOCKS)
export const zoneShown = (): string => (clock.value === 'UTC' ? 'UTC' : browserZone)

export const DENSITIES = ['cosy', 'compact'] as const
export const density = kept('tickwork.density', DENSITIES)
effect(() => {
  document.documentElement.dataset.density = density.value
})

const tick = signal(0)
setInterval(() => {
  if (!document.hidden) tick.value += 1
}, TICK_MS)

/** The time to which relative times are counted. What asks for it is shown again every few seconds. */
export function now(): number {
  void tick.value
  return Date.now()
}
