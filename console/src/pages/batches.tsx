// Batches: messages that are counted together.

import { get, post, type Schemas } from '../api'
import { useList, useLoad } from '../load'
import { A, Act, amount, ask, count, Facts, Filter, List, Show, State, say, Text, Time, Title } from '../parts'
import { path, usePlace } from '../place'
import { between, duration } from '../time'

type Answer = Schemas['BatchAnswer']

const Progress = ({ of }: { of: Answer }) => (
  <>
    <progress max={of.total || 1} value={of.completed + of.failed} aria-label="Progress" /> {amount(of.completed + of.failed)} of {amount(of.total)}
    {of.failed > 0 && <span class="bad"> ✕ {amount(of.failed)} failed</span>}
  </>
)

export function Batches() {
  const loaded = useList('batches', (page, signal) => get('/v1/batches', { query: page, signal }), ['batch', 'message.'])
  return (
    <>
      <Title>Batches</Title>
      <List
        label="Batches"
        of={loaded}
        id={(each) => each.id}
        empty="There is no batch. A batch counts up to a million messages together, and says when all are done."
        columns={[
          [
            'created',
            (each) => (
              <A to={path('batches', each.id)}>
                <Time at={each.created_at} />
              </A>
            ),
          ],
          ['status', (each) => <State is={each.status} />],
          ['queue', (each) => <Text>{each.queue}</Text>],
          ['progress', (each) => <Progress of={each} />],
        ]}
      />
    </>
  )
}

export function Batch({ id }: { id: string }) {
  const { query } = usePlace()
  const { status = 'failed' } = query
  const batch = useLoad(id, (signal) => get('/v1/batches/{batch}', { path: { batch: id }, signal }), ['batch', 'message.'])
  const items = useList(
    `items ${id} ${status}`,
    (page, signal) => get('/v1/batches/{batch}/items', { path: { batch: id }, query: { status, ...page }, signal }),
    ['batch', 'message.'],
  )
  return (
    <>
      <Title kind="Batch" note={batch.data && <State is={batch.data.status} />}>
        {id}
      </Title>
      <Show of={batch}>
        {(data) => (
          <>
            {data.status !== 'completed' && (
              <div class="row">
                <Act
                  needs="send"
                  isDanger
                  onAct={() =>
                    ask({
                      title: 'Cancel this batch?',
                      text: `${count(data.pending, 'item')} wait now and will not run. Items that run go on.`,
                      act: `Cancel ${count(data.pending, 'item')}`,
                      isDanger: true,
                      run: async () => {
                        await post('/v1/batches/{batch}/cancel', { path: { batch: id } })
                        say('Cancelled.')
                        batch.reload()
                      },
                    })
                  }
                >
                  Cancel
                </Act>
              </div>
            )}
            <p>
              <Progress of={data} />
            </p>
            <Facts
              of={[
                ['queue', data.queue && <A to={path('queues', data.queue)}>{data.queue}</A>],
                ['pending', data.pending],
                ['processing', data.processing],
                ['completed', data.completed],
                ['failed', data.failed],
                ['created', data.created_at && <Time at={data.created_at} isLong />],
                ['finished', data.completed_at && <Time at={data.completed_at} isLong />],
              ]}
            />
          </>
        )}
      </Show>
      <h2>Items</h2>
      <div class="row">
        <Filter name="status" label="Status" initial="failed" choices={['pending', 'processing', 'completed', 'failed']} />
      </div>
      <List
        label="Items"
        of={items}
        id={(each) => each.id}
        empty={`No item is ${status}.`}
        columns={[
          ['item', (each) => <A to={path('messages', each.id)}>…{each.id.slice(-8)}</A>],
          ['status', (each) => <State is={each.status} />],
          ['attempts', (each) => each.attempts ?? '–', 'num'],
          ['took', (each) => (each.started_at && each.finished_at ? duration(between(each.started_at, each.finished_at)) : '–'), 'num'],
          [
            'error',
            (each) => (
              <>
                {each.reason} <Text>{each.error ?? ''}</Text>
              </>
            ),
            'wide',
          ],
        ]}
      />
    </>
  )
}
