// What concerns every page: everything stands still or is slowed, or the server is gone.

import { get, silentSince } from './api'
import { useLoad } from './load'
import { Time } from './parts'
import { Repair, Wrong } from './repair'
import { zoneShown } from './settings'
import { clockInZone } from './time'

/** Only what an operator has paused or slowed, which is quick to read. */
const readPauses = (signal: AbortSignal) => get('/v1/health', { query: { check: 'pauses' }, signal })

export function Banners() {
  const loaded = useLoad('pauses', readPauses, ['cluster', 'node.', 'tenant'])
  return (
    <div class="banners">
      {silentSince.value && (
        <p class="box bad" role="alert">
          <strong>No answer from the server since {clockInZone(silentSince.value, zoneShown())}.</strong> This page shows what was known then, and tries again.
        </p>
      )}
      {loaded.data?.problems.map((problem) => (
        <div class={`box ${problem.severity === 'error' ? 'bad' : 'warn'}`} role="status" key={problem.code}>
          <strong>
            <Wrong problem={problem} />
          </strong>{' '}
          {problem.since && (
            <>
              Since <Time at={problem.since} isLong />{' '}
            </>
          )}
          <Repair problem={problem} />
        </div>
      ))}
    </div>
  )
}
