// Nodes and shards, the operator's knobs for all tenants, and who changed what.

import { get, post } from '../api'
import { stringify } from '../json'
import { readAgain } from '../live'
import { useList, useLoad } from '../load'
import { Ask, count, Input, List, Show, State, Subject, say, Table, Text, Time, Title } from '../parts'

const WIDEN_SECONDS = 600
const WIDEN_SECONDS_MAX = 86_400

/** Spreads the firings of all schedules, after a question. */
export function Widen({ seconds = WIDEN_SECONDS, children }: { seconds?: number; children: string }) {
  return (
    <Ask
      needs="admin"
      title="Widen the fire windows?"
      text="Slots of all schedules of all tenants that are planned from now on come up to so many seconds late, until the windows are narrowed. Schedules with a fire window of 0 keep their times."
      fields={<Input label="Seconds" name="seconds" type="number" required min={1} max={WIDEN_SECONDS_MAX} value={seconds} />}
      act="Widen the windows of all tenants"
      isDanger
      run={(values) => post('/v1/cluster/widen', { body: { seconds: Number(values.seconds) } }).then(() => done('Widened.'))}
    >
      {children}
    </Ask>
  )
}

/** Says it; the banner and the page show it. */
function done(text: string): void {
  say(text)
  readAgain()
}

export function Nodes() {
  const loaded = useLoad('cluster', (signal) => get('/v1/cluster', { signal }), ['node.', 'shard.'])
  return (
    <>
      <Title>Nodes and shards</Title>
      <Show of={loaded}>
        {(data) => (
          <>
            <div class="row">
              {!data.paused_at && (
                <Ask
                  needs="admin"
                  title="Pause everything?"
                  text="No message of any tenant is claimed until it is resumed. What runs goes on."
                  act="Pause all tenants"
                  isDanger
                  run={() => post('/v1/cluster/pause').then(() => done('Paused.'))}
                >
                  Pause everything
                </Ask>
              )}
              <Widen>Widen the fire windows</Widen>
            </div>
            {data.shards_without_leader.length > 0 && (
              <p class="box bad">
                <strong>{count(data.shards_without_leader.length, 'shard')} without a leader.</strong> Their schedules do not fire:{' '}
                {ranges(data.shards_without_leader)}
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
                [
                  'shards',
                  (each) => (
                    <>
                      {each.shards.length} <span class="soft">{ranges(each.shards)}</span>
                    </>
                  ),
                ],
                ['claims', (each) => each.claims, 'num'],
                ['started', (each) => <Time at={each.started_at} />],
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
