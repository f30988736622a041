// The lines of messages a minute.

import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import type { Schemas } from './api'
import { amount } from './parts'
import { clockInZone, browserZone } from './time'

const MINUTES = 30
const LINES: [string, string, number[]][] = [
  ['sent', '--busy', []],
  ['done', '--good', []],
  ['retried', '--warn', [6, 3]],
  ['dead', '--bad', [2, 2]],
]

export function Rates({ minutes }: { minutes: Schemas['LabeledCounts'][] }) {
  const box = useRef<HTMLDivElement>(null)
  const chart = useRef<uPlot | null>(null)
  const last = Math.floor(Date.now() / 60_000)
  const known = new Map(minutes.map((each) => [Date.parse(`${each.label.replace(' ', 'T')}Z`) / 60_000, each.counts]))
  const times = Array.from({ length: MINUTES }, (_, index) => last - MINUTES + 1 + index)
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
        axes: [{ ...axis, values: (_: uPlot, all: number[]) => all.map((each) => clockInZone(new Date(each * 1000), browserZone).slice(0, 5)) }, axis],
        scales: { y: { range: (_, __, high) => [0, Math.max(high * 1.1, 5)] } },
        cursor: { drag: { x: false, y: false } },
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
    LINES.forEach(([name], index) => chart.current?.setSeries(index + 1, { show: total(name) > 0 }))
    chart.current?.setData(data)
  }, [JSON.stringify(data)])
  return (
    <>
      <div ref={box} aria-hidden="true" />
      <p class="soft">
        In 30 minutes:{' '}
        {LINES.map(([name, colour]) => (
          <b key={name}>
            <span class={colour.slice(2)} aria-hidden="true">
              ■
            </span>{' '}
            {amount(total(name))} {name}
          </b>
        ))}
      </p>
    </>
  )
}
