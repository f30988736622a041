// A problem of the health: what is wrong, as a link to the page about it, and a button that repairs it where one call does.

import { can, post, type Schemas } from './api'
import { readAgain } from './live'
import { A, Act, say, Text } from './parts'
import { path } from './place'

export type Problem = Schemas['HealthProblem']

export function Wrong({ problem }: { problem: Problem }) {
  const [to, values] = linkTo(problem)
  const text = <Text>{problem.what}</Text>
  return to ? (
    <A to={to} values={values}>
      {text}
    </A>
  ) : (
    text
  )
}

/** The status by which the list of schedules shows those of a problem. */
const SHOWN: Record<string, string> = { schedule_parked: 'parked', schedule_dead: 'parked', schedule_paused: 'paused' }

/** The page about a problem. */
function linkTo({ code, kind, name }: Problem): [to?: string, values?: Record<string, string>] {
  switch (kind) {
    case 'queue':
      return [path('queues', name ?? '')]
    case 'dead_letters':
      return [path('dead', name ?? '')]
    case 'schedule':
      return [path('schedules', name ?? '')]
    case 'endpoint':
      return [path('endpoints', name ?? '')]
    case 'workflow':
      return [path('workflows', name ?? ''), { status: code === 'run_diverged' ? 'diverged' : 'failed' }]
    case 'tenant':
      return can('admin') ? [path('settings', name ?? '')] : []
    case 'schedules':
      return ['/schedules', SHOWN[code] ? { status: SHOWN[code] } : { order: 'next_due_at' }]
    case 'deliveries':
      return ['/deliveries', { status: 'dead' }]
    case 'endpoints':
    case 'queues':
      return [`/${kind}`]
    default:
      return can('admin') ? ['/nodes'] : []
  }
}

/** The button that ends a problem, if one call does. */
export function Repair({ problem: { code, name } }: { problem: Problem }) {
  const end = (said: string, act: () => Promise<unknown>) => () =>
    act().then(() => {
      say(said)
      readAgain()
    })
  const named = name ?? ''
  switch (code) {
    case 'cluster_paused':
      return (
        <Act needs="admin" onAct={end('Resumed.', () => post('/v1/cluster/resume'))}>
          Resume everything
        </Act>
      )
    case 'windows_widened':
      return (
        <Act needs="admin" onAct={end('Narrowed.', () => post('/v1/cluster/widen', { body: { seconds: 0 } }))}>
          Narrow the windows
        </Act>
      )
    case 'tenant_suspended':
      return (
        <Act needs="admin" onAct={end('Resumed.', () => post('/v1/tenants/{tenant}/resume', { path: { tenant: named } }))}>
          Resume the tenant
        </Act>
      )
    case 'queue_paused':
      return (
        <Act needs="manage" onAct={end('Resumed.', () => post('/v1/queues/{queue}/resume', { path: { queue: named } }))}>
          Resume the queue
        </Act>
      )
    case 'schedule_parked':
    case 'schedule_paused':
      return name ? (
        <Act needs="manage" onAct={end('Resumed.', () => post('/v1/schedules/{schedule}/resume', { path: { schedule: named } }))}>
          Resume the schedule
        </Act>
      ) : null
    case 'schedule_dead':
      return name ? (
        <Act needs="manage" onAct={end('It runs once now.', () => post('/v1/schedules/{schedule}/trigger', { path: { schedule: named } }))}>
          Run it again
        </Act>
      ) : null
    case 'endpoint_disabled':
      return name ? (
        <Act needs="manage" onAct={end('Enabled: what waited is delivered.', () => post('/v1/endpoints/{endpoint}/enable', { path: { endpoint: named } }))}>
          Enable the endpoint
        </Act>
      ) : null
    default:
      return null
  }
}
