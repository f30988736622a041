// The frame around all pages: who is signed in, where one can go, and keys of the keyboard.

import { useSignal, useSignalEffect } from '@preact/signals'
import { type AnyComponent, render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ErrorBoundary, LocationProvider, lazy, Route, Router, useLocation } from 'preact-iso'
import { can, get, lookWhoIsSignedIn, notice, type Problem, session, signIn, signOut, tenant } from './api'
import { Banners } from './banners'
import { Icon, Mark } from './icons'
import { isLive, isPaused, start } from './live'
import { Overview } from './pages/overview'
import { A, ask, Empty, explain, Question, said, say, Title } from './parts'
import { href, usePlace } from './place'
import { Search } from './search'
import { CLOCKS, clock, density } from './settings'
import { browserZone } from './time'

// The router gives each page the names in its path.
type Page = AnyComponent<object>

const schedules = () => import('./pages/schedules')
const schedule = () => import('./pages/schedule')
const queues = () => import('./pages/queues')
const messages = () => import('./pages/messages')
const dead = () => import('./pages/dead')
const operations = () => import('./pages/operations')
const batches = () => import('./pages/batches')
const endpoints = () => import('./pages/endpoints')
const workflows = () => import('./pages/workflows')
const entities = () => import('./pages/entities')
const forecast = () => import('./pages/forecast')
const capacity = () => import('./pages/capacity')
const types = () => import('./pages/types')
const usage = () => import('./pages/usage')
const system = () => import('./pages/system')
const settings = () => import('./pages/settings')

/** A page that is loaded when it is first shown. */
const page = <M,>(load: () => Promise<M>, pick: (module: M) => unknown) => lazy(() => load().then(pick as (module: M) => Page))

const ROUTES: [string, Page][] = [
  ['/schedules', page(schedules, (m) => m.Schedules)],
  ['/schedules/:id', page(schedule, (m) => m.Schedule)],
  ['/queues', page(queues, (m) => m.Queues)],
  ['/queues/:name', page(queues, (m) => m.Queue)],
  ['/messages', page(messages, (m) => m.Ended)],
  ['/messages/:id', page(messages, (m) => m.Message)],
  ['/trace/:id', page(messages, (m) => m.Trace)],
  ['/dead', page(dead, (m) => m.DeadQueues)],
  ['/dead/:queue', page(dead, (m) => m.DeadLetters)],
  ['/letters/:id', page(dead, (m) => m.Letter)],
  ['/operations', page(operations, (m) => m.Operations)],
  ['/operations/:id', page(operations, (m) => m.Operation)],
  ['/batches', page(batches, (m) => m.Batches)],
  ['/batches/:id', page(batches, (m) => m.Batch)],
  ['/endpoints', page(endpoints, (m) => m.Endpoints)],
  ['/endpoints/:id', page(endpoints, (m) => m.Endpoint)],
  ['/deliveries', page(endpoints, (m) => m.Deliveries)],
  ['/deliveries/:id', page(endpoints, (m) => m.Delivery)],
  ['/workflows', page(workflows, (m) => m.Workflows)],
  ['/workflows/:name', page(workflows, (m) => m.Runs)],
  ['/workflows/:name/:id', page(workflows, (m) => m.Run)],
  ['/entities', page(entities, (m) => m.Entities)],
  ['/entities/:type', page(entities, (m) => m.Entities)],
  ['/entities/:type/:key', page(entities, (m) => m.Entity)],
  ['/forecast', page(forecast, (m) => m.Forecast)],
  ['/capacity', page(capacity, (m) => m.Capacity)],
  ['/types', page(types, (m) => m.Types)],
  ['/types/:name', page(types, (m) => m.Type)],
  ['/usage', page(usage, (m) => m.Usage)],
  ['/nodes', page(system, (m) => m.Nodes)],
  ['/audit', page(system, (m) => m.Audit)],
  ['/settings', page(settings, (m) => m.Settings)],
  ['/settings/:tenant', page(settings, (m) => m.TenantPage)],
]

type Place = [to: string, name: string, scope: 'read' | 'admin']

const PLACES: [group: string, places: Place[]][] = [
  ['', [['/', 'Overview', 'read']]],
  [
    'Plan',
    [
      ['/schedules', 'Schedules', 'read'],
      ['/forecast', 'Forecast', 'read'],
      ['/capacity', 'Capacity', 'read'],
    ],
  ],
  [
    'Work',
    [
      ['/queues', 'Queues', 'read'],
      ['/messages', 'Messages', 'read'],
      ['/dead', 'Dead letters', 'read'],
      ['/operations', 'Operations', 'read'],
      ['/batches', 'Batches', 'read'],
      ['/types', 'Types', 'read'],
    ],
  ],
  [
    'Durable',
    [
      ['/workflows', 'Workflows', 'read'],
      ['/entities', 'Entities', 'read'],
    ],
  ],
  [
    'Deliver',
    [
      ['/endpoints', 'Endpoints', 'read'],
      ['/deliveries', 'Deliveries', 'read'],
    ],
  ],
  [
    'System',
    [
      ['/nodes', 'Nodes', 'admin'],
      ['/usage', 'Usage', 'read'],
      ['/audit', 'Audit', 'read'],
      ['/settings', 'Settings', 'read'],
    ],
  ],
]

const HELP: [string, string][] = [
  ['/', 'find anything'],
  ['j, k', 'next and previous row'],
  ['Enter', 'open the row'],
  ['g then o, s, q, d', 'go to overview, schedules, queues, dead letters'],
  ['p', 'pause or resume live updates'],
  ['?', 'this list'],
]
const GO: Record<string, string> = { o: '/', s: '/schedules', q: '/queues', d: '/dead' }

function SignIn() {
  const [error, setError] = useState('')
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    setError('')
    try {
      await signIn(String(new FormData(form).get('key')).trim())
    } catch (failed) {
      setError(explain(failed))
    }
  }
  return (
    <main class="signin">
      <Title>Sign in</Title>
      <p>
        Use an API key of this server. The first start of <code>tickwork up</code> prints one; <code>tickwork keys create</code> makes more.
      </p>
      {notice.value && (
        <p class="box" role="status">
          {notice.value} {tenant.value && <a href="/">Go to your own tenant</a>}
        </p>
      )}
      {error && (
        <p class="box bad" role="alert">
          {error}
        </p>
      )}
      <form onSubmit={submit}>
        <label class="field">
          API key
          <input name="key" type="password" autocomplete="current-password" required autofocus placeholder="tw_…" />
        </label>
        <button class="main" type="submit">
          Sign in
        </button>
      </form>
      <p class="soft">
        The session ends after twelve hours, and with its key. <a href="/docs">API documentation</a>
      </p>
    </main>
  )
}

/** Which tenant an operator looks at. */
function TenantChoice() {
  const { set } = usePlace()
  const known = useSignal<string[]>([])
  useEffect(() => {
    if (can('admin'))
      get('/v1/tenants', { query: { limit: 200 } })
        .then((page) => (known.value = page.items.map((each) => each.id)))
        .catch(() => undefined)
  }, [session.value])
  const own = session.value?.tenant ?? ''
  if (!can('admin'))
    return (
      <span class="soft">
        tenant <bdi>{own}</bdi>
      </span>
    )
  const current = tenant.value || own
  return (
    <label class="check soft">
      tenant
      <select value={current} onChange={(event) => set({ tenant: event.currentTarget.value })}>
        {[...new Set([current, ...known.value])].map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
    </label>
  )
}

/** How times and lists look. */
function View() {
  return (
    <>
      <label class="quiet">
        <span class="unseen">Times</span>
        <select value={clock.value} title="How times in lists are shown" onChange={(event) => (clock.value = event.currentTarget.value as typeof clock.value)}>
          {CLOCKS.map((choice) => (
            <option key={choice} value={choice}>
              {choice === 'local' ? browserZone : choice}
            </option>
          ))}
        </select>
      </label>
      <button
        type="button"
        class="quiet"
        aria-pressed={density.value === 'compact'}
        title="More rows on a page"
        onClick={() => (density.value = density.value === 'compact' ? 'cosy' : 'compact')}
      >
        Compact
      </button>
    </>
  )
}

function Frame() {
  const { path } = useLocation()
  const base = path.replace(/^\/console/, '') || '/'
  const who = session.value
  const first = who?.owner ? ROUTES[0]![1] : Overview
  const groups = PLACES.map(([group, places]) => [group, places.filter(([to, , scope]) => (who?.owner ? to === '/schedules' : can(scope)))] as const)
  return (
    <>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header class="top">
        <A to={who?.owner ? '/schedules' : '/'} class="brand">
          <Mark />
          Tickwork
        </A>
        <TenantChoice />
        {!who?.owner && <Search />}
        <span class="right">
          <button
            type="button"
            class="live"
            data-is={isPaused.value ? 'paused' : isLive.value ? 'live' : 'polled'}
            aria-pressed={isPaused.value}
            onClick={() => (isPaused.value = !isPaused.value)}
            title="Pages read again when something happens (p)"
          >
            {isPaused.value ? 'Paused' : isLive.value ? 'Live' : 'Every 5 s'}
          </button>
          <View />
          <span class="soft who" title={who?.key_id ?? undefined}>
            key <bdi>{who?.key_id}</bdi>
          </span>
          <button type="button" class="quiet" onClick={() => signOut().catch((error) => say(explain(error)))}>
            Sign out
          </button>
        </span>
      </header>
      <Banners />
      <div class="frame">
        <nav class="side" aria-label="Pages">
          {groups.map(
            ([group, places]) =>
              places.length > 0 && (
                <ul key={group} data-name={group} aria-label={group || undefined}>
                  {places.map(([to, name]) => (
                    <li key={to}>
                      <a href={href(to)} aria-current={(to === '/' ? base === '/' : base.startsWith(to)) ? 'page' : undefined}>
                        <Icon of={to.slice(1) || 'overview'} />
                        {name}
                      </a>
                    </li>
                  ))}
                </ul>
              ),
          )}
        </nav>
        <main id="main" tabIndex={-1}>
          <ErrorBoundary onError={(error) => say(`This page failed: ${error.message}. Load it again, or go to another one.`)}>
            <Router onRouteChange={showTop}>
              <Route path="/" component={first} />
              <Route path="/console" component={first} />
              {ROUTES.map(([to, component]) => (
                <Route key={to} path={`/console${to}`} component={component} />
              ))}
              <Route default component={Nowhere} />
            </Router>
          </ErrorBoundary>
        </main>
      </div>
    </>
  )
}

const Nowhere = () => (
  <>
    <Title>No such page</Title>
    <Empty>
      Nothing is at this address. <A to="/">Go to the overview.</A>
    </Empty>
  </>
)

/** A new page begins at its top, also for the keyboard and for screen readers, unless somebody types already. */
function showTop(): void {
  window.scrollTo(0, 0)
  if (!document.activeElement?.closest('.find')) document.getElementById('main')?.focus({ preventScroll: true })
}

function move(step: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>('main tbody tr')].filter((row) => row.querySelector('a, button'))
  const now = rows.findIndex((row) => row.contains(document.activeElement))
  const next = rows[now < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(now + step, 0), rows.length - 1)]
  next?.querySelector<HTMLElement>('a, button')?.focus()
}

function useKeys(go: (to: string) => void): void {
  useEffect(() => {
    let afterG = 0
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest('input, textarea, select, dialog')) return
      if (Date.now() - afterG < 1_500 && GO[event.key]) go(GO[event.key]!)
      else if (event.key === 'j') move(1)
      else if (event.key === 'k') move(-1)
      else if (event.key === 'p') isPaused.value = !isPaused.value
      else if (event.key === '/') document.querySelector<HTMLElement>('[data-find], [data-search]')?.focus()
      else if (event.key === '?') showHelp()
      else {
        afterG = event.key === 'g' ? Date.now() : 0
        return
      }
      afterG = 0
      event.preventDefault()
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [])
}

const showHelp = () =>
  ask({
    title: 'Keys',
    fields: (
      <dl>
        {HELP.map(([key, text]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    ),
    act: 'Close',
    run: () => Promise.resolve(),
  })

function App() {
  const { query } = useLocation()
  const { go } = usePlace()
  if ((query.tenant ?? '') !== tenant.peek()) tenant.value = query.tenant ?? ''
  useKeys(go)
  useEffect(() => {
    if (session.value === undefined) lookWhoIsSignedIn().catch((error: Problem) => say(error.message))
  }, [])
  useSignalEffect(() => {
    if (!said.value) return
    const timer = setTimeout(() => (said.value = ''), 12_000)
    return () => clearTimeout(timer)
  })
  if (session.value === undefined)
    return (
      <p class="soft signin" role="status">
        {said.value || 'Loading …'}
      </p>
    )
  return (
    <>
      {session.value ? <Frame /> : <SignIn />}
      <Question />
      <div class="said" role="status">
        {said.value}
      </div>
    </>
  )
}

start()
render(
  <LocationProvider scope={/^\/(console(\/|\?|$)|\?|$)/}>
    <App />
  </LocationProvider>,
  document.getElementById('app')!,
)
