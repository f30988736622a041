// What concerns every page: everything stands still or is slowed, or the server is gone.

import { get, post, session, silentSince, type Schemas } from './api'
import { readAgain } from './live'
import { useLoad } from './load'
import { A, Act, say, Text, Time } from './parts'
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
            <Text>{problem.what}</Text>
          </strong>{' '}
          {problem.since && (
            <>
              Since <Time at={problem.since} isLong />{' '}
            </>
          )}
          <End problem={problem} />
        </div>
      ))}
    </div>
  )
}

/** What ends it. */
function End({ problem }: { problem: Schemas['HealthProblem'] }) {
  const end = (text: string, act: () => Promise<unknown>) =>
    act().then(() => {
      say(text)
      readAgain()
    })
  if (problem.code === 'cluster_paused')
    return (
      <Act needs="admin" onAct={() => end('Resumed.', () => post('/v1/cluster/resume'))}>
        Resume everything
      </Act>
    )
  if (problem.code === 'windows_widened')
    return (
      <Act needs="admin" onAct={() => end('Narrowed.', () => post('/v1/cluster/widen', { body: { seconds: 0 } }))}>
        Narrow the windows
      </Act>
    )
  return session.value?.owner ? null : <A to={`/settings/${encodeURIComponent(problem.name ?? '')}`}>The tenant</A>
}
