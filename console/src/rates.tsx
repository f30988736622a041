// The lines of messages a minute.

import { useEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import type { Schemas } from './api'
import { amount } from './parts'
import { zoneShown } from './settings'
import { byMinute, clockInZone, minutesShown } from './time'

/** Steps of the axis of counts. */
const WHOLE = Array.from({ length: 30 }, (_, index) => [1, 2, 5][index % 3]! * 10 ** Math.floor(index / 3))
const LINES: [string, string, number[]][] = [
  ['sent', '--busy', []],
  ['done', '--good', []],
  ['retried', '--warn', [6, 3]],
  ['dead', '--bad', [2, 2]],
]

export function Rates({ minutes }: { minutes: Schemas['LabeledCounts'][] }) {
  const box = useRef<HTMLDivElement>(null)
  const chart = useRef<uPlot | null>(null)
  const [pointed, setPointed] = useState<number | null>(null)
  const known = byMinute(minutes)
  const times = minutesShown()
  const data: uPlot.AlignedData = [times.map((each) => each * 60), ...LINES.map(([name]) => times.map((each) => known.get(each)?.[name] ?? 0))]
  useEffect(() => {
    const element = box.current!
    const style = getComputedStyle(document.documentElement)
    const probe = document.createElement('i')
    element.append(probe)
    const colour = (name: string) => {
      probe.style.color = style.getPropertyValue(name)
      return getComputedStyle(probe).color
    }
    const axis = { stroke: colour('--soft'), grid: { stroke: colour('--line'), width: 1 }, ticks: { stroke: colour('--line') } }
    chart.current = new uPlot(
      {
        width: element.clientWidth,
        height: 180,
        series: [{}, ...LINES.map(([label, name, dash]) => ({ label, stroke: colour(name), width: 2, dash, points: { show: false } }))],
        axes: [
          { ...axis, values: (_: uPlot, all: number[]) => all.map((each) => clockInZone(new Date(each * 1000), zoneShown()).slice(0, 5)) },
          { ...axis, incrs: WHOLE },
        ],
        scales: { y: { range: (_, __, high) => [0, Math.max(high * 1.1, 5)] } },
        cursor: { drag: { x: false, y: false }, y: false },
        hooks: { setCursor: [(plot: uPlot) => setPointed(plot.cursor.idx ?? null)] },
        legend: { show: false },
      },
      data,
      element,
    )
    probe.remove()
    const resized = new ResizeObserver(() => chart.current?.setSize({ width: element.clientWidth, height: 180 }))
    resized.observe(element)
    return () => {
      resized.disconnect()
      chart.current?.destroy()
    }
  }, [])
  const total = (name: string) => minutes.reduce((sum, each) => sum + (each.counts[name] ?? 0), 0)
  useEffect(() => {
    // A line at zero would only hide the axis.
    for (const [index, [name]] of LINES.entries()) chart.current?.setSeries(index + 1, { show: total(name) > 0 })
    chart.current?.setData(data)
  }, [JSON.stringify(data)])
  return (
    <>
      <div ref={box} aria-hidden="true" />
      <p class="soft">
        {pointed === null ? 'In 30 minutes:' : `At ${clockInZone(new Date(times[pointed]! * 60_000), zoneShown()).slice(0, 5)}:`}{' '}
        {LINES.map(([name, colour]) => (
          <b key={name}>
            <span class={colour.slice(2)} aria-hidden="true">
              ■
            </span>{' '}
            {amount(pointed === null ? total(name) : (known.get(times[pointed]!)?.[name] ?? 0))} {name}
          </b>
        ))}
      </p>
    </>
  )
}
