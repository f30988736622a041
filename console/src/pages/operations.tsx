// Operations: work on many things that nodes carry on, also while nobody looks.

import { get, post, type Schemas } from '../api'
import { useList, useLoad } from '../load'
import { A, Ask, amount, Facts, Filter, Json, List, Show, State, sayAndReload, Text, Time, Title } from '../parts'
import { path, usePlace } from '../place'

type View = Schemas['OperationView']

const handled = (of: View): number => of.done + of.failed + of.skipped

const Progress = ({ of }: { of: View }) => (
  <>
    <progress max={Math.max(of.total, handled(of), 1)} value={handled(of)} aria-label="Progress" /> {amount(handled(of))} of {of.is_estimate ? 'about ' : ''}
    {amount(of.total)}
    {of.failed > 0 && <span class="bad"> ✕ {amount(of.failed)} failed</span>}
  </>
)

export function Operations() {
  const { query } = usePlace()
  const isOpen = query.open === 'yes' || undefined
  const loaded = useList(`operations ${isOpen}`, (page, signal) => get('/v1/operations', { query: { open_only: isOpen, ...page }, signal }), ['operation'])
  return (
    <>
      <Title>Operations</Title>
      <p>Work on many things at once. The processes of the cluster carry it on in batches, also when this page is closed.</p>
      <div class="row">
        <Filter name="open" label="Not finished" choices={['yes']} />
      </div>
      <List
        label="Operations"
        of={loaded}
        id={(each) => each.id}
        empty={
          <>
            No operation was started in the last 30 days. <A to="/dead">Dead letters</A> can be replayed by one.
          </>
        }
        columns={[
          [
            'started',
            (each) => (
              <A to={path('operations', each.id)}>
                <Time at={each.started_at} />
              </A>
            ),
          ],
          ['what', (each) => each.kind],
          ['state', (each) => <State is={each.state} />],
          ['progress', (each) => <Progress of={each} />],
          ['by', (each) => <Text>{each.started_by}</Text>],
          ['finished', (each) => <Time at={each.finished_at} />],
          ['why', (each) => <Text>{each.reason ?? each.error ?? ''}</Text>, 'wide'],
        ]}
      />
    </>
  )
}

const REASONS: Record<string, string> = {
  stopped: 'Somebody stopped it.',
  canary_died: 'A canary died again; the rest was left alone.',
  canary_timeout: 'The canaries were not handled in time; the rest was left alone.',
  backlog_full: 'The backlog of the queue is full; the rest was left alone.',
}

export function Operation({ id }: { id: string }) {
  const loaded = useLoad(`operation ${id}`, (signal) => get('/v1/operations/{operation}', { path: { operation: id }, signal }), ['operation'])
  return (
    <>
      <Title kind="Operation" note={loaded.data && <State is={loaded.data.state} />}>
        {id}
      </Title>
      <Show of={loaded}>{(data) => <Whole of={data} reload={loaded.reload} />}</Show>
    </>
  )
}

function Whole({ of, reload }: { of: View; reload: () => void }) {
  return (
    <>
      <p>
        <Progress of={of} />
      </p>
      {of.finished_at ? (
        <p class={of.state === 'done' ? 'box good' : 'box bad'}>
          {of.state === 'done' ? 'It is done.' : of.reason ? REASONS[of.reason] : 'It failed.'} <bdi>{of.error ?? ''}</bdi>
        </p>
      ) : (
        <div class="row">
          <Ask
            needs="manage"
            isDanger
            title="Stop this operation?"
            text="Nothing more is done. What is done stays done."
            act="Stop it"
            run={async () => {
              const stopped = await post('/v1/operations/{operation}/stop', { path: { operation: of.id } })
              sayAndReload(`Stopped after ${amount(handled(stopped))} of ${amount(stopped.total)}.`, { reload })
            }}
          >
            Stop
          </Ask>
        </div>
      )}
      <Facts
        of={[
          ['what', of.kind],
          ['done', amount(of.done)],
          ['failed', amount(of.failed)],
          ['skipped', amount(of.skipped)],
          ['canaries', of.canary || null],
          ['a second', of.rate_per_second],
          ['started', <Time at={of.started_at} isLong />],
          ['by', of.started_by && <Text>{of.started_by}</Text>],
          ['finished', of.finished_at && <Time at={of.finished_at} isLong />],
          ['stopped by', of.stopped_by && <Text>{of.stopped_by}</Text>],
        ]}
      />
      <h2>Selection, frozen at the start</h2>
      <Json value={of.selection} label="Selection" />
    </>
  )
}
