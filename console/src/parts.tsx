// What pages are made of.

import { signal } from '@preact/signals'
import type { ComponentChildren, InputHTMLAttributes, TargetedEvent, TargetedSubmitEvent, TextareaHTMLAttributes } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { can, Problem, type Scope } from './api'
import { stringify } from './json'
import type { Loaded, Page } from './load'
import { href, path, usePlace } from './place'
import { clock, now, zoneShown } from './settings'
import { ago, agoBriefly, browserZone, inUtc, inZone } from './time'

const ROWS_MAX = 200
const TEXT_SHOWN_MAX = 400_000
const DAY_MS = 86_400_000

export function A({ to, values, children, ...more }: { to: string; values?: Record<string, string>; children: ComponentChildren; class?: string }) {
  return (
    <a href={href(to, values)} {...more}>
      {children}
    </a>
  )
}

/** A title of the page, which the tab of the browser shows too. `kind` says what has this name. */
export function Title({ children, kind, note }: { children: string; kind?: string; note?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${children} · Tickwork`
  }, [children])
  return (
    <h1 tabIndex={-1}>
      {kind && <span class="kind">{kind} </span>}
      <bdi>{children}</bdi> {note} {/_[0-9a-f]{8}/.test(children) && <Copy text={children} />}
    </h1>
  )
}

function Copy({ text }: { text: string }) {
  const copy = async () => {
    await navigator.clipboard.writeText(text)
    say('Copied.')
  }
  // Browsers have a clipboard only over https and on the machine of the server.
  return (
    navigator.clipboard && (
      <button type="button" class="plain copy" onClick={copy}>
        copy
      </button>
    )
  )
}

/** A text of the server, with its times as the console writes them. */
export const Told = ({ children }: { children: string | null | undefined }) => (
  <bdi>{children?.replace(/(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z/g, '$1 $2 UTC')}</bdi>
)

const KINDS: Record<string, [page: string, prefix: string]> = {
  schedule: ['schedules', 'sch_'],
  queue: ['queues', ''],
  batch: ['batches', 'bat_'],
  operation: ['operations', 'oper_'],
  dead: ['letters', 'dead_'],
  tenant: ['settings', ''],
}

/** What a record of the audit is about, with a link to it. */
export function Subject({ action, subject }: { action: string; subject: string }) {
  const [page, prefix] = KINDS[action.split('.')[0]!] ?? []
  const isId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(subject)
  if (!page || (prefix !== '') !== isId || action.endsWith('.delete')) return <Text>{subject}</Text>
  const id = prefix + (isId ? subject.replaceAll('-', '') : subject)
  return <A to={path(page, id)}>{isId ? `${prefix}…${id.slice(-8)}` : <Text>{subject}</Text>}</A>
}

/** A text of a user: it does not change the direction of what is around it. */
export const Text = ({ children }: { children: string | number | null | undefined }) => <bdi>{children ?? '–'}</bdi>

/** A time as somebody wants to see times: how long ago, or in the zone of the browser or UTC. All of them are in its
 * title. One in the zone of a schedule is absolute, and so is a long one, which says how long ago besides. */
export function Time({ at, zone, isLong }: { at: string | null | undefined; zone?: string; isLong?: boolean }) {
  if (!at) return <span class="soft">–</span>
  const shown = zone ?? zoneShown()
  const title = `${inZone(at, browserZone)} ${browserZone}${browserZone === 'UTC' ? '' : ` = ${inUtc(at)}`} · ${ago(at)}`
  if (!isLong && !zone && clock.value === 'relative') {
    const isNear = Math.abs(Date.parse(at) - now()) < DAY_MS
    return (
      <time dateTime={at} title={title}>
        {isNear ? agoBriefly(at, now()) : inZone(at, shown).slice(0, 16)}
      </time>
    )
  }
  // Formatting a time is slow, and lists have many.
  const local = inZone(at, shown)
  const utc = zone && zone !== 'UTC' ? inUtc(at).slice(local.slice(0, 10) === inUtc(at).slice(0, 10) ? 11 : 0) : ''
  return (
    <time dateTime={at} title={title}>
      <span>{local}</span> {!zone && (isLong || shown === 'UTC') && <span class="soft">{shown} </span>}
      {zone && <span class="soft">{utc || 'UTC'} </span>}
      {isLong && <span class="soft">· {ago(at, now())}</span>}
    </time>
  )
}

/** The line of a few numbers, such as of the last minutes. */
export function Spark({ of, label }: { of: readonly number[]; label: string }) {
  const high = Math.max(...of, 1)
  const points = of.map((number, index) => `${((index * 78) / Math.max(of.length - 1, 1) + 1).toFixed(1)},${(19 - (number / high) * 17).toFixed(1)}`)
  return (
    <svg class="spark" viewBox="0 0 80 20" width="80" height="20" role="img" aria-label={label}>
      <polyline points={points.join(' ')} />
    </svg>
  )
}

const SIGNS: Record<string, [string, string]> = {
  active: ['●', 'good'],
  succeeded: ['✓', 'good'],
  completed: ['✓', 'good'],
  delivered: ['✓', 'good'],
  done: ['✓', 'good'],
  ready: ['●', 'busy'],
  running: ['▶', 'busy'],
  canary: ['◔', 'busy'],
  stopped: ['■', 'warn'],
  claimed: ['▶', 'busy'],
  processing: ['▶', 'busy'],
  started: ['▶', 'busy'],
  planned: ['○', 'soft'],
  pending: ['○', 'soft'],
  waiting: ['○', 'soft'],
  delayed: ['◷', 'soft'],
  blocked: ['◧', 'soft'],
  filling: ['◔', 'soft'],
  paused: ['‖', 'warn'],
  partial: ['◐', 'warn'],
  retrying: ['↻', 'warn'],
  late: ['◷', 'warn'],
  skipped: ['–', 'warn'],
  suspended: ['‖', 'warn'],
  dead: ['✕', 'bad'],
  diverged: ['✕', 'bad'],
  failed: ['✕', 'bad'],
  parked: ['✕', 'bad'],
  expired: ['✕', 'bad'],
  failing: ['✕', 'bad'],
  revoked: ['✕', 'bad'],
  cancelled: ['■', 'soft'],
  discarded: ['■', 'soft'],
  terminated: ['■', 'soft'],
  deleted: ['■', 'soft'],
  disabled: ['■', 'bad'],
}

export const signOf = (state: string): [string, string] => SIGNS[state] ?? ['·', 'soft']

/** A state by word, sign and colour. */
export function State({ is }: { is: string }) {
  const [sign, tone] = signOf(is)
  return (
    <span class={`state ${tone}`}>
      <span aria-hidden="true">{sign}</span> {is}
    </span>
  )
}

export function Failure({ error, retry }: { error: Problem; retry?: () => void }) {
  return (
    <div class="box bad" role="alert">
      <p>
        <strong>{error.status === 404 ? 'Not found.' : error.status === 403 ? 'Not allowed.' : 'This failed.'}</strong> <bdi>{error.message}</bdi>
      </p>
      {error.fields.length > 0 && (
        <ul>
          {error.fields.map((each) => (
            <li key={each.field}>
              <code>{each.field}</code> <bdi>{each.message}</bdi>
            </li>
          ))}
        </ul>
      )}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  )
}

/** Where something will be, so that the page does not jump. */
export const Loading = () => (
  <div class="loading" role="status">
    <span class="unseen">Loading …</span>
    <i />
    <i />
    <i />
  </div>
)

/** Shows what was loaded, or that it is loading, failed or empty. */
export function Show<T>({ of, children }: { of: Loaded<T>; children: (data: T) => ComponentChildren }) {
  if (of.isLoading) return <Loading />
  return (
    <>
      {of.error && <Failure error={of.error} retry={of.reload} />}
      {of.data !== undefined && children(of.data)}
    </>
  )
}

export const Empty = ({ children }: { children: ComponentChildren }) => <p class="empty">{children}</p>

/** A column: its name, what it shows of an item, and whether that is a number or a long text. */
export type Column<T> = [name: string, cell: (each: T) => ComponentChildren, kind?: 'num' | 'wide']

interface Rows<T> {
  label: string
  columns: Column<T>[]
  id: (each: T) => string
  empty: ComponentChildren
}

/** A table of at most 200 rows. On a phone each row is a card. */
export function Table<T>({ label, items, columns, id, empty }: Rows<T> & { items: readonly T[] }) {
  if (!items.length) return <Empty>{empty}</Empty>
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={label}>
        <table class="list">
          <thead>
            <tr>
              {columns.map(([name, , kind]) => (
                <th key={name} scope="col" class={kind}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {items.slice(0, ROWS_MAX).map((each) => (
              <tr key={id(each)}>
                {columns.map(([name, cell, kind]) => (
                  <td key={name} class={kind} data-name={name}>
                    {cell(each)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {items.length > ROWS_MAX && (
        <p class="soft">
          The first {ROWS_MAX} of {items.length.toLocaleString('en')} are shown.
        </p>
      )}
    </>
  )
}

type ListOf<T> = Rows<T> & { of: Loaded<Page<T>>; cursor?: string }

/** A list with a heading, and what makes one more. */
export function Section<T>({ title, children, ...list }: ListOf<T> & { title?: string; children?: ComponentChildren }) {
  return (
    <section aria-label={list.label}>
      <h2>{title ?? list.label}</h2>
      {children && <div class="row">{children}</div>}
      <List {...list} />
    </section>
  )
}

/** A page of a list, with the way to the next one. `cursor` is the name of its cursor in the URL. */
export function List<T>({ of, cursor = 'cursor', empty, ...rows }: ListOf<T>) {
  const { query, set } = usePlace()
  return (
    <Show of={of}>
      {({ items, next_cursor: next }) => (
        <>
          <Table
            items={items}
            empty={next ? 'Nothing fits so far. The list is long, and not all of it was searched.' : query[cursor] ? 'This was the end of the list.' : empty}
            {...rows}
          />
          {(next || query[cursor]) && (
            <nav class="row" aria-label={`Pages of ${rows.label}`}>
              {query[cursor] && (
                <button type="button" onClick={() => set({ [cursor]: undefined })}>
                  First page
                </button>
              )}
              {next && (
                <button type="button" onClick={() => set({ [cursor]: next })}>
                  {items.length ? 'Next page' : 'Search on'}
                </button>
              )}
            </nav>
          )}
        </>
      )}
    </Show>
  )
}

/** A filter that is in the URL. One with an initial value always has one. */
export function Filter({
  name,
  label,
  choices,
  initial,
  hint,
  isNumber,
}: {
  name: string
  label: string
  choices?: readonly string[]
  initial?: string
  hint?: string
  isNumber?: boolean
}) {
  const { query, set } = usePlace()
  const value = query[name] ?? initial ?? ''
  // What is typed stays while the page shows new data; another value in the URL replaces it.
  const [typed, setTyped] = useState(value)
  useEffect(() => setTyped(value), [value])
  const change = (event: TargetedEvent<HTMLInputElement | HTMLSelectElement>) => set({ [name]: event.currentTarget.value })
  return (
    <label class="field">
      {label}
      {choices ? (
        <select value={value} onChange={change}>
          {initial === undefined && <option value="">all</option>}
          {choices.map((each) => (
            <option key={each} value={each}>
              {each}
            </option>
          ))}
        </select>
      ) : (
        <input
          type="search"
          inputMode={isNumber ? 'numeric' : undefined}
          value={typed}
          placeholder={hint}
          onInput={(event) => setTyped(event.currentTarget.value)}
          onChange={change}
          data-search
        />
      )}
    </label>
  )
}

/** What is known about a thing; what has no value is left out. */
export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl>
      {of
        .filter(([, value]) => value !== null && value !== undefined && value !== '')
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  )
}

/** A value as JSON, exactly. A body of text or bytes is shown as the text that it is. */
export function Json({ value, label, isText }: { value: unknown; label: string; isText?: boolean }) {
  const text = isText && typeof value === 'string' ? value : stringify(value, 2)
  return (
    <pre dir="auto" tabIndex={0} role="group" aria-label={label}>
      {text.slice(0, TEXT_SHOWN_MAX)}
      {text.length > TEXT_SHOWN_MAX && `\n… ${text.length - TEXT_SHOWN_MAX} more characters`}
    </pre>
  )
}

interface Asked {
  title: string
  text?: ComponentChildren
  fields?: ComponentChildren
  act: string
  isDanger?: boolean
  run: (values: Record<string, string>) => Promise<void>
}

const asked = signal<Asked | undefined>(undefined)
export const said = signal('')

export const ask = (question: Asked): void => {
  asked.value = question
}

export const say = (text: string): void => {
  said.value = text
}

export const explain = (error: unknown): string =>
  error instanceof Problem ? [error.message, ...error.fields.map((each) => `${each.field}: ${each.message}`)].join(' ') : String(error)

/** The question that is asked before something is changed. */
export function Question() {
  const dialog = useRef<HTMLDialogElement>(null)
  const [error, setError] = useState('')
  const [isBusy, setBusy] = useState(false)
  const question = asked.value
  useEffect(() => {
    setError('')
    if (question) dialog.current?.showModal()
    else dialog.current?.close()
  }, [question])
  const submit = async (event: TargetedSubmitEvent<HTMLFormElement>) => {
    event.preventDefault()
    const values = Object.fromEntries(new FormData(event.currentTarget)) as Record<string, string>
    setBusy(true)
    try {
      await question?.run(values)
      if (asked.value === question) asked.value = undefined
    } catch (failed) {
      setError(explain(failed))
    } finally {
      setBusy(false)
    }
  }
  return (
    <dialog ref={dialog} aria-labelledby="question" onClose={() => (asked.value = undefined)}>
      {question && (
        <form onSubmit={submit}>
          <h2 id="question">
            <bdi>{question.title}</bdi>
          </h2>
          {question.text && <p>{question.text}</p>}
          {question.fields}
          {error && (
            <p class="box bad" role="alert">
              {error}
            </p>
          )}
          <div class="row">
            <button type="submit" class={question.isDanger ? 'danger' : 'main'} disabled={isBusy}>
              {question.act}
            </button>
            <button type="button" onClick={() => (asked.value = undefined)}>
              Cancel
            </button>
          </div>
        </form>
      )}
    </dialog>
  )
}

/** A button that is there for whoever has the scope. The server checks it again. */
export function Act({
  needs,
  children,
  onAct,
  isMain,
  isDanger,
}: {
  needs: Scope
  children: ComponentChildren
  onAct: () => void | Promise<void>
  isMain?: boolean
  isDanger?: boolean
}) {
  const [isBusy, setBusy] = useState(false)
  if (!can(needs)) return null
  const run = async () => {
    said.value = ''
    setBusy(true)
    try {
      await onAct()
    } catch (failed) {
      say(explain(failed))
    } finally {
      setBusy(false)
    }
  }
  return (
    <button type="button" class={isDanger ? 'danger' : isMain ? 'main' : ''} disabled={isBusy} onClick={run}>
      {children}
    </button>
  )
}

/** A button that asks before it acts. */
export function Ask({ needs, children, ...question }: Asked & { needs: Scope; children: ComponentChildren }) {
  return (
    <Act needs={needs} isDanger={question.isDanger} onAct={() => ask(question)}>
      {children}
    </Act>
  )
}

/** Says that something was done, and reads again what it changed. */
export const sayAndReload = (text: string, changed: { reload: () => void }): void => {
  say(text)
  changed.reload()
}

/** A field. `value` is what it has at first: what is typed stays when the server refuses it. */
export function Input({ label, name, value, ...more }: { label: string; name: string } & InputHTMLAttributes<HTMLInputElement>) {
  return (
    <label class="field">
      {label}
      <input name={name} defaultValue={value} {...more} />
    </label>
  )
}

export function Area({ label, name, value, ...more }: { label: string; name: string } & TextareaHTMLAttributes<HTMLTextAreaElement>) {
  return (
    <label class="field">
      {label}
      <textarea name={name} rows={6} spellcheck={false} dir="auto" defaultValue={value} {...more} />
    </label>
  )
}

export const amount = (number: number): string => number.toLocaleString('en')

/** A bounded count: `at_least` names the states of which there may be more. */
export const bounded = <S extends string>({ counts, at_least }: { counts: Record<S, number>; at_least: readonly string[] }, state: S): string =>
  `${amount(counts[state])}${at_least.includes(state) ? '+' : ''}`
export const count = (number: number, one: string, many = `${one}s`): string => `${amount(number)} ${number === 1 ? one : many}`
