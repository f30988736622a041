// Nodes and shards, the operator's knobs for all tenants, and who changed what.

import type { ComponentChildren } from 'preact'
import { can, get, post } from '../api'
import { stringify } from '../json'
import { useList, useLoad } from '../load'
import { Act, Ask, count, Input, List, sayAndReload, Show, State, Subject, Table, Text, Time, Title } from '../parts'
import { ago } from '../time'

const WIDEN_SECONDS = 600
const WIDEN_SECONDS_MAX = 86_400

interface Changed {
  reload: () => void
}

/** Spreads the firings of all schedules, after a question. */
export function Widen({ seconds = WIDEN_SECONDS, children, changed }: { seconds?: number; children: string; changed: Changed }) {
  return (
    <Ask
      needs="admin"
      title="Widen the fire windows?"
      text="Slots of all schedules of all tenants that are planned from now on come up to so many seconds late, until the windows are narrowed. Schedules with a fire window of 0 keep their times."
      fields={<Input label="Seconds" name="seconds" type="number" required min={1} max={WIDEN_SECONDS_MAX} value={seconds} />}
      act="Widen the windows of all tenants"
      isDanger
      run={(values) => widen(Number(values.seconds)).then(() => sayAndReload('Widened.', changed))}
    >
      {children}
    </Ask>
  )
}

const widen = (seconds: number) => post('/v1/cluster/widen', { body: { seconds } })

function WidenedBox({ seconds, changed }: { seconds: number; changed: Changed }) {
  return (
    <div class="box warn">
      <strong>Fire windows are widened:</strong> slots come up to {count(seconds, 'second')} late.{' '}
      <Act needs="admin" onAct={() => widen(0).then(() => sayAndReload('Narrowed.', changed))}>
        Narrow the windows
      </Act>
    </div>
  )
}

/** For the operator: whether windows are widened, on another page than that of the nodes. */
export function useWidened(): { box: ComponentChildren; changed: Changed } {
  const loaded = useLoad('widened', (signal) => (can('admin') ? get('/v1/cluster', { signal }) : Promise.resolve(undefined)), ['node.'])
  const seconds = loaded.data?.widened_seconds
  return { box: seconds ? <WidenedBox seconds={seconds} changed={loaded} /> : undefined, changed: loaded }
}

export function Nodes() {
  const loaded = useLoad('cluster', (signal) => get('/v1/cluster', { signal }), ['node.', 'shard.'])
  return (
    <>
      <Title>Nodes and shards</Title>
      <Show of={loaded}>
        {(data) => (
          <>
            {data.paused_at && (
              <p class="box warn">
                <strong>Everything is paused</strong> since <Time at={data.paused_at} isLong />: no message of any tenant is claimed.
              </p>
            )}
            {data.widened_seconds > 0 && <WidenedBox seconds={data.widened_seconds} changed={loaded} />}
            <div class="row">
              {data.paused_at ? (
                <Act needs="admin" isMain onAct={() => post('/v1/cluster/resume').then(() => sayAndReload('Resumed.', loaded))}>
                  Resume everything
                </Act>
              ) : (
                <Ask
                  needs="admin"
                  title="Pause everything?"
                  text="No message of any tenant is claimed until it is resumed. What runs goes on."
                  act="Pause all tenants"
                  isDanger
                  run={() => post('/v1/cluster/pause').then(() => sayAndReload('Paused.', loaded))}
                >
                  Pause everything
                </Ask>
              )}
              <Widen changed={loaded}>Widen the fire windows</Widen>
            </div>
            {data.shards_without_leader.length > 0 && (
              <p class="box bad">
                <strong>{count(data.shards_without_leader.length, 'shard')} without a leader.</strong> Their schedules do not fire: {ranges(data.shards_without_leader)}
              </p>
            )}
            <Table
              label="Nodes"
              items={data.nodes}
              id={(each) => each.id}
              empty="No process runs on this database."
              columns={[
                ['node', (each) => <Text>{each.name}</Text>],
                ['state', (each) => <State is={each.is_alive ? 'active' : 'dead'} />],
                ['roles', (each) => each.roles.join(', ')],
                ['shards', (each) => <>{each.shards.length} <span class="soft">{ranges(each.shards)}</span></>],
                ['claims', (each) => each.claims, 'num'],
                ['started', (each) => <span title={each.started_at}>{ago(each.started_at)}</span>],
                ['lease until', (each) => <Time at={each.expires_at} />],
              ]}
            />
            <p class="soft">
              Time of the database: <Time at={data.now} zone="UTC" /> · schema {data.schema_version} · epoch {data.epoch}
            </p>
          </>
        )}
      </Show>
    </>
  )
}

/** 1, 2, 3, 7 as 1–3, 7. */
function ranges(numbers: number[]): string {
  const found: [number, number][] = []
  for (const each of [...numbers].sort((a, b) => a - b)) {
    const last = found.at(-1)
    if (last && last[1] === each - 1) last[1] = each
    else found.push([each, each])
  }
  return found.map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(', ')
}

export function Audit() {
  const loaded = useList('audit', (page, signal) => get('/v1/audit', { query: page, signal }), [''])
  return (
    <>
      <Title>Audit</Title>
      <p>Who changed what, for a year.</p>
      <List
        label="Changes"
        of={loaded}
        id={(each) => each.id}
        empty="Nobody has changed anything yet."
        columns={[
          ['at', (each) => <Time at={each.at} />],
          ['who', (each) => <Text>{each.actor}</Text>],
          ['did', (each) => each.action],
          ['what', (each) => <Subject action={each.action} subject={each.subject} />],
          [
            'before and after',
            ({ before, after }) =>
              (before || after) && (
                <details>
                  <summary>show</summary>
                  <pre>{`${before ? `before ${stringify(before, 2)}\n` : ''}${after ? `after ${stringify(after, 2)}` : ''}`}</pre>
                </details>
              ),
          ],
        ]}
      />
    </>
  )
}
