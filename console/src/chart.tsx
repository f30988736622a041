// The chart of messages a minute, whose library is loaded when the first chart is shown.

import type { FunctionComponent } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { Schemas } from './api'

type Minutes = { minutes: Schemas['LabeledCounts'][] }

export function Chart({ minutes }: Minutes) {
  const [Rates, setRates] = useState<FunctionComponent<Minutes>>()
  useEffect(() => {
    import('./rates').then((module) => setRates(() => module.Rates)).catch(() => undefined)
  }, [])
  return <div class="rates">{Rates && <Rates minutes={minutes} />}</div>
}
