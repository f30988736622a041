// The workbench of dead letters: groups, edit, replay with a canary, discard.

import type { TargetedSubmitEvent } from 'preact'
import { useState } from 'preact/hooks'
import { get, type Problem, patch, post, type Schemas } from '../api'
import { stringify } from '../json'
import { ROWS, useList, useLoad } from '../load'
import { A, Act, amount, ask, bounded, count, Facts, Failure, Filter, Input, Json, List, Show, State, say, Table, Text, Time, Title } from '../parts'
import { path, usePlace } from '../place'
import { WhyBox } from './messages'

export function DeadQueues() {
  const { query } = usePlace()
  const loaded = useLoad(`stats ${query.cursor}`, (signal) => get('/v1/stats', { query: { limit: ROWS, cursor: query.cursor }, signal }), [
    'message.',
    'queue.',
    'dead',
  ])
  const page = { ...loaded, data: loaded.data && { items: loaded.data.queues.filter((each) => each.counts.dead), next_cursor: loaded.data.next_cursor } }
  return (
    <>
      <Title>Dead letters</Title>
      <p>A dead letter is a message that will not be retried. It is kept for 14 days with its body, its error and the reason.</p>
      <List
        label="Queues with dead letters"
        of={page}
        id={(each) => each.queue}
        empty="No queue has a dead letter."
        columns={[
          [
            'queue',
            (each) => (
              <A to={path('dead', each.queue)}>
                <Text>{each.queue}</Text>
              </A>
            ),
          ],
          ['dead letters', (each) => bounded(each, 'dead'), 'num'],
        ]}
      />
    </>
  )
}

/** Which dead letters: the fields of a request. An empty fingerprint is that of letters without an error. */
interface Chosen {
  reason?: string
  fingerprint?: string
  type?: string
  no_type?: boolean
  failed_before?: string
}

const chosenBy = ({ reason, fingerprint, type }: Schemas['DeadGroup']): Chosen => ({ reason, fingerprint, ...(type === null ? { no_type: true } : { type }) })

/** As it is in the URL, where nothing is empty. */
const inUrl = ({ reason, fingerprint, type, no_type }: Chosen) => ({
  reason,
  fingerprint,
  no_error: fingerprint === '' ? 'yes' : undefined,
  type,
  no_type: no_type ? 'yes' : undefined,
  failed_before: undefined,
})

const fromUrl = ({ reason, fingerprint, no_error, type, no_type, failed_before }: Record<string, string>): Chosen => ({
  reason,
  fingerprint: no_error ? '' : fingerprint,
  type: no_type ? undefined : type,
  no_type: no_type ? true : undefined,
  failed_before,
})

const words = ({ reason, fingerprint, type, no_type, failed_before }: Chosen): string =>
  [
    reason && `reason ${reason}`,
    fingerprint === '' ? 'without an error' : fingerprint && `error ${fingerprint}`,
    no_type ? 'without a type' : type && `type ${type}`,
    failed_before && `failed until ${failed_before}`,
  ]
    .filter(Boolean)
    .join(', ')

/** Counts what is chosen. What is asked then is about these: none that dies later. */
async function frozen(queue: string, chosen: Chosen): Promise<{ letters: number; these: Chosen } | undefined> {
  const { letters, failed_before } = await get('/v1/queues/{queue}/dead/count', { path: { queue }, query: { ...chosen } })
  if (letters) return { letters, these: { ...chosen, failed_before } }
  say('No dead letter fits any more.')
  return undefined
}

const LETTERS_AT_ONCE = 100

/** Whether an operation does it, which nodes carry on. Many dead letters take longer than somebody waits. */
const Background = ({ letters }: { letters: number }) => (
  <label class="check">
    <input type="checkbox" name="background" value="yes" defaultChecked={letters > LETTERS_AT_ONCE} /> In the background: it goes on when this page is closed
  </label>
)

/** Starts an operation on dead letters; returns its page. */
async function begin(
  kind: Schemas['OperationKind'],
  selection: Record<string, unknown>,
  pace: { canary?: number; rate_per_second?: number } = {},
): Promise<string> {
  const { id } = await post('/v1/operations', { body: { kind, selection, ...pace } })
  say('Started. The processes of the cluster carry it on.')
  return path('operations', id)
}

async function askReplay(queue: string, chosen: Chosen, done: () => void, go: (to: string) => void): Promise<void> {
  const found = await frozen(queue, chosen)
  if (!found) return done()
  const { letters, these } = found
  const what = count(letters, 'dead letter')
  ask({
    title: `Replay ${what} of ${queue}?`,
    text: words(chosen) || 'All dead letters of the queue.',
    fields: (
      <>
        <Input label="Canaries to send first; the rest follows if they succeed" name="canary" type="number" min={0} value={letters > 10 ? '1' : '0'} />
        <Input label="Messages a second (empty: no limit)" name="rate" type="number" min={0} step="any" />
        <Input label="At most, oldest first" name="limit" type="number" min={1} max={letters} value={letters} required />
        <Background letters={letters} />
      </>
    ),
    act: `Replay ${what}`,
    run: async ({ canary, rate, limit, background }) => {
      const pace = { canary: Number(canary), rate_per_second: rate ? Number(rate) : undefined }
      if (background) return go(await begin('dead_letters.replay', { queue, ...these, limit: Number(limit) }, pace))
      const answer = await post('/v1/queues/{queue}/dead/replay', {
        path: { queue },
        body: { ...these, ...pace, limit: Number(limit) },
      })
      say(`${count(answer.replayed, 'message')} replayed.${answer.stopped ? ` Stopped: ${answer.stopped}.` : ''}`)
      done()
    },
  })
}

async function askDiscard(queue: string, chosen: Chosen, done: () => void, go: (to: string) => void): Promise<void> {
  const found = await frozen(queue, chosen)
  if (!found) return done()
  const { letters, these } = found
  const what = count(letters, 'dead letter')
  ask({
    title: `Discard ${what} of ${queue}?`,
    text: `${words(chosen)}. They are marked as discarded, and cannot be replayed any more.`,
    fields: <Background letters={letters} />,
    act: `Discard ${what}`,
    isDanger: true,
    run: async ({ background }) => {
      if (background) return go(await begin('dead_letters.discard', { queue, ...these, limit: letters }))
      const { discarded } = await post('/v1/queues/{queue}/dead/discard', { path: { queue }, body: { ...these, limit: letters } })
      say(`${count(discarded, 'dead letter')} discarded.`)
      done()
    },
  })
}

export function DeadLetters({ queue }: { queue: string }) {
  const { query, set, go } = usePlace()
  const topics = ['message.', 'queue.', 'dead']
  const groups = useLoad(`groups ${queue}`, (signal) => get('/v1/queues/{queue}/dead/groups', { path: { queue }, query: { limit: ROWS }, signal }), topics)
  const filters = fromUrl(query)
  const letters = useList(
    `letters ${queue} ${JSON.stringify(filters)}`,
    (page, signal) => get('/v1/queues/{queue}/dead', { path: { queue }, query: { ...filters, ...page }, signal }),
    topics,
    { limit: 50 },
  )
  const reload = () => {
    groups.reload()
    letters.reload()
  }
  return (
    <>
      <Title kind="Dead letters of">{queue}</Title>
      <p>
        Replays and discards in the background are <A to="/operations">operations</A>.
      </p>
      <h2>Groups</h2>
      <Show of={groups}>
        {(data) => (
          <Table
            label="Groups"
            items={data.groups}
            id={(each) => stringify(chosenBy(each))}
            empty="This queue has no unresolved dead letter."
            columns={[
              [
                'reason',
                (each) => (
                  <button type="button" class="plain" onClick={() => set(inUrl(chosenBy(each)))}>
                    {each.reason}
                  </button>
                ),
              ],
              ['error', (each) => <Text>{each.example ?? each.fingerprint}</Text>, 'wide'],
              ['type', (each) => <Text>{each.type}</Text>],
              ['dead letters', (each) => amount(each.letters), 'num'],
              ['first', (each) => <Time at={each.first_failed_at} />],
              ['last', (each) => <Time at={each.last_failed_at} />],
              [
                'actions',
                (each) => (
                  <div class="acts">
                    <Act needs="manage" onAct={() => askReplay(queue, chosenBy(each), reload, go)}>
                      Replay {amount(each.letters)}
                    </Act>
                    <Act needs="manage" isDanger onAct={() => askDiscard(queue, chosenBy(each), reload, go)}>
                      Discard {amount(each.letters)}
                    </Act>
                  </div>
                ),
              ],
            ]}
          />
        )}
      </Show>
      <h2>Dead letters</h2>
      <div class="row">
        <Filter name="reason" label="Reason" />
        <Filter name="fingerprint" label="Error group" />
        <Filter name="no_error" label="Without an error" choices={['yes']} />
        <Filter name="type" label="Type" />
        <Filter name="no_type" label="Without a type" choices={['yes']} />
        <Filter name="failed_before" label="Failed before" hint="2027-01-01T00:00:00Z" />
        <Act needs="manage" onAct={() => askReplay(queue, filters, reload, go)}>
          Replay what fits these filters
        </Act>
      </div>
      <List
        label="Dead letters"
        of={letters}
        id={(each) => each.id}
        empty={words(filters) ? 'No dead letter fits these filters.' : 'This queue has no dead letter.'}
        columns={[
          [
            'failed',
            (each) => (
              <A to={path('letters', each.id)}>
                <Time at={each.failed_at} />
              </A>
            ),
          ],
          ['reason', (each) => each.reason],
          ['error', (each) => <Text>{each.summary?.slice(0, 200)}</Text>, 'wide'],
          ['type', (each) => <Text>{each.type}</Text>],
          ['attempts', (each) => each.attempts, 'num'],
          ['now', (each) => (each.resolution ? <State is={each.resolution} /> : each.edited_at ? 'edited' : <span class="soft">unresolved</span>)],
        ]}
      />
    </>
  )
}

export function Letter({ id }: { id: string }) {
  const loaded = useLoad(id, (signal) => get('/v1/dead/{dead_letter}', { path: { dead_letter: id }, signal }), ['message.', 'dead'])
  const why = useLoad(`why ${id}`, (signal) => get('/v1/dead/{dead_letter_id}/why', { path: { dead_letter_id: id }, signal }))
  return (
    <>
      <Title kind="Dead letter">{id}</Title>
      <WhyBox of={why} />
      <Show of={loaded}>{(data) => <Whole letter={data} reload={loaded.reload} />}</Show>
    </>
  )
}

function Whole({ letter, reload }: { letter: Schemas['DeadLetter']; reload: () => void }) {
  const { query, set } = usePlace()
  const named = { path: { dead_letter: letter.id } }
  const leave = () => {
    reload()
    set({ edit: undefined })
  }
  const isOpen = letter.resolution === null
  return (
    <>
      {isOpen ? (
        <div class="row">
          <Act
            needs="manage"
            isMain
            onAct={async () => {
              const { replayed_as } = await post('/v1/dead/{dead_letter}/replay', named)
              say(`Replayed as ${replayed_as}.`)
              reload()
            }}
          >
            Replay
          </Act>
          {!query.edit && (
            <Act needs="manage" onAct={() => set({ edit: 'yes' })}>
              Edit the body
            </Act>
          )}
          <Act
            needs="manage"
            isDanger
            onAct={() =>
              ask({
                title: 'Discard this dead letter?',
                text: 'It cannot be replayed any more.',
                act: 'Discard 1 dead letter',
                isDanger: true,
                run: async () => {
                  await post('/v1/dead/{dead_letter}/discard', named)
                  say('Discarded.')
                  reload()
                },
              })
            }
          >
            Discard
          </Act>
          {letter.correlation_id && <A to={path('trace', letter.correlation_id)}>Trace</A>}
        </div>
      ) : (
        <p class="box good">
          It was {letter.resolution}
          {letter.replayed_as && (
            <>
              {' '}
              as <A to={path('messages', letter.replayed_as)}>{letter.replayed_as}</A>
            </>
          )}
          , <Time at={letter.resolved_at} isLong />
        </p>
      )}
      <Facts
        of={[
          ['queue', letter.queue && <A to={path('dead', letter.queue)}>{letter.queue}</A>],
          ['reason', letter.reason],
          ['attempts', letter.attempts],
          ['failed', letter.failed_at && <Time at={letter.failed_at} isLong />],
          ['sent', letter.sent_at && <Time at={letter.sent_at} isLong />],
          ['edited', letter.edited_at && <Time at={letter.edited_at} isLong />],
          ['type', letter.type && <Text>{letter.type}</Text>],
          ['key', letter.key && <Text>{letter.key}</Text>],
          ['source', letter.source && <Text>{letter.source}</Text>],
          ['message', <code>{letter.message_id}</code>],
          ['schedule', letter.schedule_id && <A to={path('schedules', letter.schedule_id)}>{letter.schedule_id}</A>],
          ['batch', letter.batch_id && <A to={path('batches', letter.batch_id)}>{letter.batch_id}</A>],
        ]}
      />
      <h2>Error</h2>
      <Json value={letter.error ?? 'none'} label="Error" isText />
      <h2>Body ({letter.content_type})</h2>
      {query.edit && isOpen ? <EditBody letter={letter} onDone={leave} /> : <Json value={letter.body} label="Body" isText={letter.content_type !== 'json'} />}
    </>
  )
}

/** The text is sent as it is, so that numbers keep their digits. */
function EditBody({ letter, onDone }: { letter: Schemas['DeadLetter']; onDone: () => void }) {
  const isJson = letter.content_type === 'json'
  const [error, setError] = useState<Problem>()
  const submit = async (event: TargetedSubmitEvent<HTMLFormElement>) => {
    event.preventDefault()
    const text = String(new FormData(event.currentTarget).get('body'))
    try {
      const raw = `{"body":${isJson ? text : JSON.stringify(text)},"content_type":"${letter.content_type}"}`
      await patch('/v1/dead/{dead_letter}', { path: { dead_letter: letter.id }, raw })
      say('Saved. Replay it when you are ready.')
      onDone()
    } catch (failed) {
      setError(failed as Problem)
    }
  }
  return (
    <form onSubmit={submit}>
      <label class="field">
        Body
        <textarea name="body" rows={14} spellcheck={false} dir="auto" defaultValue={isJson ? stringify(letter.body, 2) : String(letter.body)} />
      </label>
      {error && <Failure error={error} />}
      <div class="row">
        <button type="submit" class="main">
          Save the body
        </button>
        <A to={path('letters', letter.id)}>Cancel</A>
      </div>
    </form>
  )
}
