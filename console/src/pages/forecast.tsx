// Firings a minute for the hours to come, and the minutes with too many of them.

import { can, get, type Schemas } from '../api'
import { useLoad } from '../load'
import { A, amount, type Column, count, Filter, Show, Table, Text, Time, Title } from '../parts'
import { path, usePlace } from '../place'
import { zoneShown } from '../settings'
import { clockInZone } from '../time'
import { Widen } from './system'

const WIDTH = 960
const HEIGHT = 160
const BARS = 240

export function Forecast() {
  const { query, set } = usePlace()
  const hours = Number(query.hours) || 24
  const window_seconds = query.window
  const loaded = useLoad(`forecast ${hours} ${window_seconds}`, (signal) => get('/v1/forecast', { query: { hours, window_seconds }, signal }), ['schedule.'])
  return (
    <>
      <Title>Forecast</Title>
      <div class="row">
        <label class="field">
          Hours ahead
          <select value={String(hours)} onChange={(event) => set({ hours: event.currentTarget.value })}>
            {[1, 6, 12, 24].map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <Filter name="window" label="Try a fire window, in seconds" isNumber />
      </div>
      <Show of={loaded}>
        {(data) => (
          <>
            <div class="cards">
              <span class="card">
                <b>{amount(data.firings)}</b> firings of {amount(data.schedules)} schedules
              </span>
              <span class="card">
                <b>{amount(data.median)}</b> in the median minute
              </span>
              <span class="card">
                <b>{amount(data.peak_firings)}</b> in the busiest, at {clockInZone(data.peak_at, zoneShown()).slice(0, 5)}
              </span>
            </div>
            <Bars of={data} />
            <h2>Herds</h2>
            <Table
              label="Herds"
              items={data.herds.slice(0, 50)}
              id={(each) => each.at}
              empty="No minute has many more firings than the others."
              columns={[
                ['minute', (each) => <Time at={each.at} zone={zoneShown()} />],
                ['firings', (each) => amount(each.firings), 'num'],
                [
                  'because of',
                  (each) =>
                    each.causes.slice(0, 5).map((cause) => (
                      <div key={`${cause.rule} ${cause.target}`}>
                        {amount(cause.firings)} of <A to={path('schedules', cause.schedule)}>{count(cause.schedules, 'schedule')}</A> <code>{cause.rule}</code>{' '}
                        <Text>{cause.target}</Text>
                      </div>
                    )),
                ],
              ]}
            />
            <h2>What a fire window would do</h2>
            <Table
              label="Fire windows"
              items={data.windows}
              id={(each) => String(each.fire_window_seconds)}
              empty="Nothing fires."
              columns={[
                ['window', (each) => `${each.fire_window_seconds} s`],
                ['firings in the busiest minute', (each) => amount(each.peak_firings), 'num'],
                ...(can('admin')
                  ? [
                      ['actions', (each) => <Widen seconds={each.fire_window_seconds}>Widen all windows</Widen>] as Column<
                        Schemas['Forecast']['windows'][number]
                      >,
                    ]
                  : []),
              ]}
            />
            <h2>Targets</h2>
            <Table
              label="Targets"
              items={data.targets.slice(0, 50)}
              id={(each) => `${each.kind} ${each.name}`}
              empty="Nothing fires."
              columns={[
                [
                  'target',
                  (each) => (
                    <>
                      <span class="soft">{each.kind}</span> <Text>{each.name}</Text>
                    </>
                  ),
                ],
                ['firings', (each) => amount(each.firings), 'num'],
              ]}
            />
          </>
        )}
      </Show>
    </>
  )
}

/** A bar for some minutes: the busiest of them. */
function Bars({ of }: { of: Schemas['Forecast'] }) {
  const each = Math.max(Math.ceil(of.minutes.length / BARS), 1)
  const bars = Array.from({ length: Math.ceil(of.minutes.length / each) }, (_, index) => Math.max(...of.minutes.slice(index * each, (index + 1) * each)))
  const width = WIDTH / bars.length
  const high = Math.max(...bars, 1)
  const start = Date.parse(of.start)
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Firings by minute">
      <svg class="chart" viewBox={`0 0 ${WIDTH} ${HEIGHT + 20}`} role="img" aria-label={`Firings a minute; at most ${high}`}>
        {bars.map((number, index) => (
          <rect
            key={index}
            class={number > 2 * Math.max(of.median, 1) ? 'warn' : 'busy'}
            x={index * width}
            width={Math.max(width - 1, 1)}
            y={HEIGHT - (number / high) * HEIGHT}
            height={(number / high) * HEIGHT}
          >
            <title>{`${clockInZone(new Date(start + index * each * 60_000), zoneShown()).slice(0, 5)}: ${number}`}</title>
          </rect>
        ))}
        {Array.from({ length: 6 }, (_, index) => (
          <text key={index} x={(index / 6) * WIDTH} y={HEIGHT + 14}>
            {clockInZone(new Date(start + (index / 6) * of.minutes.length * 60_000), zoneShown()).slice(0, 5)}
          </text>
        ))}
      </svg>
    </div>
  )
}
