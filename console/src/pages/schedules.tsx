// All schedules, and the form for a new one.

import type { TargetedSubmitEvent } from 'preact'
import { useState } from 'preact/hooks'
import { can, get, type Problem, post } from '../api'
import { stringify } from '../json'
import { useList } from '../load'
import { A, Area, Failure, Filter, Input, List, State, say, Text, Time, Title } from '../parts'
import { path, usePlace } from '../place'
import { Meaning, shortTiming, type Timing, TimingFields, usePreview } from '../timing'

const STATUSES = ['active', 'paused', 'parked', 'completed', 'deleted'] as const

export function Schedules() {
  const { query, set } = usePlace()
  if (query.new && can('manage')) return <NewSchedule />
  const { status, name_prefix, owner, order } = query
  const filters = { status, name_prefix, owner }
  const loaded = useList(
    JSON.stringify([filters, order]),
    (page, signal) => get('/v1/schedules', { query: { ...filters, order: order || 'name', ...page }, signal }),
    ['schedule.', 'firing.'],
  )
  return (
    <>
      <Title>Schedules</Title>
      <div class="row">
        <Filter name="name_prefix" label="Name begins with" />
        <Filter name="status" label="Status" choices={STATUSES} />
        <Filter name="owner" label="Owner" />
        <label class="field">
          Order
          <select value={order || 'name'} onChange={(event) => set({ order: event.currentTarget.value })}>
            <option value="name">name</option>
            <option value="next_due_at">next fire</option>
            <option value="created">created</option>
          </select>
        </label>
        {can('manage') && (
          <button type="button" class="main" onClick={() => set({ new: 'yes' })}>
            New schedule
          </button>
        )}
      </div>
      <List
        label="Schedules"
        of={loaded}
        id={(each) => each.id}
        empty={
          Object.values(filters).some(Boolean)
            ? 'No schedule fits these filters.'
            : 'There is no schedule yet. A schedule sends a message, calls a URL or starts a workflow at the times you choose.'
        }
        columns={[
          [
            'name',
            (each) => (
              <>
                <A to={path('schedules', each.id)}>
                  <Text>{each.name ?? each.id}</Text>
                </A>
                {each.owner && <span class="soft"> of {each.owner}</span>}
              </>
            ),
          ],
          ['status', (each) => <State is={each.status} />],
          ['when', (each) => <code>{shortTiming(each)}</code>],
          ['zone', (each) => each.timezone],
          ['next fire: zone, UTC', (each) => <Time at={each.next_fire_at} zone={each.timezone} />],
          [
            'last',
            (each) => (
              <>
                {each.last_status ? <State is={each.last_status} /> : <span class="soft">never</span>}{' '}
                {each.last_error && (
                  <span class="bad">
                    <Text>{each.last_error.slice(0, 120)}</Text>
                  </span>
                )}
              </>
            ),
          ],
        ]}
      />
    </>
  )
}

function NewSchedule() {
  const { go } = usePlace()
  const [timing, setTiming] = useState<Timing>()
  const [error, setError] = useState<Problem>()
  const { preview, error: wrong } = usePreview(timing, 5)
  const submit = async (event: TargetedSubmitEvent<HTMLFormElement>) => {
    event.preventDefault()
    const values = Object.fromEntries(new FormData(event.currentTarget)) as Record<string, string>
    const target = values.target ?? ''
    const where = /^https?:/.test(target) ? { target_url: target } : { target: { type: 'queue', queue: target } }
    const fields = stringify({ ...timing, ...where, name: values.name || undefined })
    const payload = values.payload?.trim()
    try {
      // The payload is sent as it was typed, so that its numbers keep their digits.
      const raw = payload ? `${fields.slice(0, -1)},"payload":${payload}}` : fields
      const made = await post('/v1/schedules', { raw })
      say('The schedule is created.')
      if ('id' in made) go(path('schedules', made.id))
    } catch (failed) {
      setError(failed as Problem)
    }
  }
  return (
    <>
      <Title>New schedule</Title>
      <form onSubmit={submit}>
        <div class="row">
          <Input label="Name" name="name" maxLength={120} placeholder="morning-report" />
          <Input label="Target: a queue, or a URL" name="target" required placeholder="reports" />
        </div>
        <TimingFields rule={{}} onTiming={setTiming} />
        <Area label="Payload, as JSON (optional)" name="payload" placeholder='{"team": "ops"}' />
        <h2>What it means</h2>
        <Meaning preview={preview} error={wrong} zone={String(timing?.timezone ?? '')} />
        {error && <Failure error={error} />}
        <div class="row">
          <button type="submit" class="main">
            Create the schedule
          </button>
          <A to="/schedules">Cancel</A>
        </div>
      </form>
    </>
  )
}
