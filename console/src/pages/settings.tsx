// Settings: tenants and keys for the operator; calendars, limits and subscriptions for everybody.

import { can, get, patch, post, put, remove, type Schemas } from '../api'
import { type Page, type ReadPage, useList, useLoad } from '../load'
import { A, Act, Area, Ask, ask, count, Facts, Input, Section, Show, State, sayAndReload, Text, Time, Title } from '../parts'
import { path } from '../place'

/** Rows of each list: there are four on the page. */
const LIMIT = 50
const READ = 200
const useSettings = <T,>(name: string, topic: string, read: ReadPage<T>) => useList(name, read, [topic], { name, limit: LIMIT })
const SCOPES = ['read', 'send', 'consume', 'manage', 'admin'] as const

export function Settings() {
  return (
    <>
      <Title>Settings</Title>
      {can('admin') && <Tenants />}
      <Calendars />
      <Subscriptions />
      <Limits />
    </>
  )
}

function Tenants() {
  const loaded = useSettings('tenants', 'tenant', (page, signal) => get('/v1/tenants', { query: page, signal }))
  return (
    <Section
      label="Tenants"
      of={loaded}
      cursor="tenants"
      id={(each) => each.id}
      empty="There is no tenant."
      columns={[
        [
          'tenant',
          (each) => (
            <A to={path('settings', each.id)}>
              <Text>{each.id}</Text>
            </A>
          ),
        ],
        ['state', (each) => <State is={each.suspended ? 'suspended' : 'active'} />],
        ['weight', (each) => each.weight, 'num'],
        [
          'quotas',
          (each) =>
            quotas(each)
              .map(([name, value]) => `${words(name)}: ${value}`)
              .join(', ') || <span class="soft">none</span>,
        ],
      ]}
    >
      <Ask
        needs="admin"
        title="New tenant"
        fields={<Input label="Id" name="id" required maxLength={120} />}
        act="Create the tenant"
        run={({ id }) => post('/v1/tenants', { body: { id } }).then(() => sayAndReload('Created.', loaded))}
      >
        New tenant
      </Ask>
    </Section>
  )
}

type Quota = Exclude<keyof Schemas['TenantLimits'], 'weight' | 'owner_targets'>

/** All that the API has: the compiler names one that is missing. */
const QUOTAS = Object.keys({
  schedules_max: true,
  schedules_per_second: true,
  messages_per_second: true,
  min_interval_seconds: true,
  payload_bytes_max: true,
  backlog_max: true,
  claimed_max: true,
  emails_per_day: true,
  requests_per_second: true,
  queues_max: true,
  endpoints_max: true,
  subscriptions_max: true,
  sessions_max: true,
  owner_schedules_max: true,
  owner_min_interval_seconds: true,
} satisfies Record<Quota, true>) as Quota[]
const words = (name: string): string => name.replaceAll('_', ' ')
const quotas = (tenant: Schemas['Tenant']) => QUOTAS.map((name) => [name, tenant[name]] as const).filter(([, value]) => value != null)

export function TenantPage({ tenant: _, params }: { tenant?: string; params?: Record<string, string> }) {
  return <Tenant id={params?.tenant ?? ''} />
}

function Tenant({ id }: { id: string }) {
  const named = { path: { tenant: id } }
  const loaded = useLoad(`tenant ${id}`, (signal) => get('/v1/tenants/{tenant}', { ...named, signal }), ['tenant'])
  return (
    <Show of={loaded}>
      {(data) => (
        <>
          <Title kind="Tenant" note={<State is={data.suspended ? 'suspended' : 'active'} />}>
            {id}
          </Title>
          <div class="row">
            {data.suspended ? (
              <Act needs="admin" isMain onAct={() => post('/v1/tenants/{tenant}/resume', named).then(() => sayAndReload('Resumed.', loaded))}>
                Resume
              </Act>
            ) : (
              <Ask
                needs="admin"
                title={`Suspend the tenant ${id}?`}
                text="Its keys are refused and none of its messages are claimed, until it is resumed."
                act="Suspend 1 tenant"
                isDanger
                run={() => post('/v1/tenants/{tenant}/suspend', named).then(() => sayAndReload('Suspended.', loaded))}
              >
                Suspend
              </Ask>
            )}
            <Ask
              needs="admin"
              title={`Quotas of ${id}`}
              text="An empty field means no quota. Without emails per day only the tenant default may send email."
              fields={QUOTAS.map((name) => (
                <Input key={name} label={words(name)} name={name} type="number" min={0} step="any" value={String(data[name] ?? '')} />
              ))}
              act="Save the quotas"
              run={(values) => {
                const body = Object.fromEntries(QUOTAS.map((name) => [name, values[name] ? Number(values[name]) : null]))
                return patch('/v1/tenants/{tenant}', { ...named, body }).then(() => sayAndReload('Saved.', loaded))
              }}
            >
              Change quotas
            </Ask>
          </div>
          <Facts
            of={[
              ['weight', data.weight],
              ...QUOTAS.map((name) => [words(name), data[name]] as [string, number | null]),
              ['targets of owners', data.owner_targets.join(', ')],
            ]}
          />
          <Keys tenant={id} />
        </>
      )}
    </Show>
  )
}

const showToken = ({ token }: { token: string }) =>
  ask({ title: 'The key', text: 'It is shown once.', fields: <pre>{token}</pre>, act: 'I have stored it', run: () => Promise.resolve() })

const KeyFields = () => (
  <>
    <Input label="What is it for?" name="name" required maxLength={120} />
    <Input label="Owner (optional)" name="owner" />
    <fieldset>
      <legend>Scopes</legend>
      {SCOPES.map((each) => (
        <label class="check" key={each}>
          <input type="checkbox" name={`scope ${each}`} defaultChecked={each === 'read'} /> {each}
        </label>
      ))}
    </fieldset>
  </>
)

function Keys({ tenant }: { tenant: string }) {
  const loaded = useList(`keys ${tenant}`, (page, signal) => get('/v1/tenants/{tenant}/keys', { path: { tenant }, query: page, signal }), ['key'])
  const create = async (values: Record<string, string>) => {
    const scopes = SCOPES.filter((each) => values[`scope ${each}`])
    const made = await post('/v1/tenants/{tenant}/keys', { path: { tenant }, body: { name: values.name, scopes, owner: values.owner || undefined } })
    loaded.reload()
    showToken(made)
  }
  return (
    <Section
      label="API keys"
      of={loaded}
      id={(each) => each.id}
      empty="This tenant has no key."
      columns={[
        ['name', (each) => <Text>{each.name}</Text>],
        ['id', (each) => <code>{each.id}</code>],
        ['state', (each) => <State is={each.revoked_at ? 'revoked' : each.expires_at && Date.parse(each.expires_at) < Date.now() ? 'expired' : 'active'} />],
        ['scopes', (each) => each.scopes.join(', ')],
        ['owner', (each) => <Text>{each.owner}</Text>],
        ['last used', (each) => <Time at={each.last_used_at} />],
        [
          'actions',
          ({ id, name, revoked_at }) =>
            !revoked_at && (
              <div class="acts">
                <Ask
                  needs="admin"
                  title={`Rotate the key ${name}?`}
                  text="It gets a new secret. The one before works for another day."
                  act="Rotate 1 key"
                  run={() => post('/v1/tenants/{tenant}/keys/{key}/rotate', { path: { tenant, key: id }, body: {} }).then(showToken)}
                >
                  Rotate
                </Ask>
                <Ask
                  needs="admin"
                  title={`Revoke the key ${name}?`}
                  text="Programs that use it are refused within three seconds, and its sessions end."
                  act="Revoke 1 key"
                  isDanger
                  run={() => remove('/v1/tenants/{tenant}/keys/{key}', { path: { tenant, key: id } }).then(() => sayAndReload('Revoked.', loaded))}
                >
                  Revoke
                </Ask>
              </div>
            ),
        ],
      ]}
    >
      <Ask needs="admin" title={`New API key of ${tenant}`} fields={<KeyFields />} act="Create the key" run={create}>
        New key
      </Ask>
    </Section>
  )
}

/** Refuses a name that is taken: what has it would be changed. */
async function checkIsNew<T extends { name: string }>(
  kind: string,
  name: string,
  read: (page: { limit: number; cursor?: string }) => Promise<Page<T>>,
): Promise<void> {
  for (let cursor: string | null | undefined = undefined; cursor !== null; ) {
    const page: Page<T> = await read({ limit: READ, cursor })
    if (page.items.some((each) => each.name === name)) throw new Error(`There is a ${kind} of this name. Change it in its row.`)
    cursor = page.next_cursor ?? null
  }
}

const NameField = () => <Input label="Name" name="name" required maxLength={120} />
const DaysField = ({ days }: { days: string[] }) => <Area label="Days off, one a line, such as 2027-12-25" name="days" value={days.join('\n')} />

function Calendars() {
  const loaded = useSettings('calendars', 'calendar', (page, signal) => get('/v1/calendars', { query: page, signal }))
  const save = async (calendar: string, days: string | undefined) => {
    const { moved } = await put('/v1/calendars/{calendar}', { path: { calendar }, body: { days: (days ?? '').split(/[\s,]+/).filter(Boolean) } })
    sayAndReload(`Saved. ${count(moved.length, 'schedule')} changed ${moved.length === 1 ? 'its' : 'their'} next fire.`, loaded)
  }
  return (
    <Section
      title="Calendars: days off"
      label="Calendars"
      of={loaded}
      cursor="calendars"
      id={(each) => each.name}
      empty="There is no calendar. Schedules skip the days off of their calendar."
      columns={[
        ['calendar', (each) => <Text>{each.name}</Text>],
        ['days', (each) => each.days.length, 'num'],
        [
          'next days off',
          (each) =>
            each.days
              .filter((day) => day >= new Date().toISOString().slice(0, 10))
              .slice(0, 5)
              .join(', '),
        ],
        ['updated', (each) => <Time at={each.updated_at} />],
        [
          'actions',
          ({ name, days }) => (
            <div class="acts">
              <Ask
                needs="manage"
                title={`Days off of ${name}`}
                text="Slots of its schedules that are not due yet move at once."
                fields={<DaysField days={days} />}
                act="Save the days off"
                run={(values) => save(name, values.days)}
              >
                Change the days off
              </Ask>
              <Ask
                needs="manage"
                title={`Delete the calendar ${name}?`}
                text="A calendar that a schedule uses cannot be deleted."
                act="Delete 1 calendar"
                isDanger
                run={() => remove('/v1/calendars/{calendar}', { path: { calendar: name } }).then(() => sayAndReload('Deleted.', loaded))}
              >
                Delete the calendar
              </Ask>
            </div>
          ),
        ],
      ]}
    >
      <Ask
        needs="manage"
        title="New calendar"
        fields={
          <>
            <NameField />
            <DaysField days={[]} />
          </>
        }
        act="Create the calendar"
        run={async ({ name = '', days }) => {
          await checkIsNew('calendar', name, (page) => get('/v1/calendars', { query: page }))
          await save(name, days)
        }}
      >
        New calendar
      </Ask>
    </Section>
  )
}

function Subscriptions() {
  const loaded = useSettings('subscriptions', 'subscription', (page, signal) => get('/v1/subscriptions', { query: page, signal }))
  return (
    <Section
      label="Subscriptions"
      of={loaded}
      cursor="subscriptions"
      id={(each) => `${each.types} ${each.queue}`}
      empty="No queue subscribes to a type of events."
      columns={[
        ['types', (each) => <Text>{each.types}</Text>],
        [
          'queue',
          (each) => (
            <A to={path('queues', each.queue)}>
              <Text>{each.queue}</Text>
            </A>
          ),
        ],
        [
          'actions',
          ({ types, queue }) => (
            <Ask
              needs="manage"
              title={`Unsubscribe ${queue} from ${types}?`}
              text="It gets no event that is published from now on. What waits in it stays."
              act="Delete 1 subscription"
              isDanger
              run={() => remove('/v1/subscriptions', { query: { types, queue } }).then(() => sayAndReload('Deleted.', loaded))}
            >
              Unsubscribe
            </Ask>
          ),
        ],
      ]}
    >
      <Ask
        needs="manage"
        title="New subscription"
        text="Each event of these types that is published from now on is sent to the queue."
        fields={
          <>
            <Input label="Types, such as order.*" name="types" required />
            <Input label="Queue" name="queue" required />
          </>
        }
        act="Subscribe the queue"
        run={({ types = '', queue = '' }) => post('/v1/subscriptions', { body: { types, queue } }).then(() => sayAndReload('Subscribed.', loaded))}
      >
        New subscription
      </Ask>
    </Section>
  )
}

const LimitFields = ({ of }: { of?: Schemas['NamedLimit'] }) => (
  <>
    <Input label="Rate (empty: none)" name="rate" type="number" min={0} step="any" value={String(of?.rate ?? '')} />
    <Input label="In so many seconds" name="period_seconds" type="number" min={0} step="any" required value={String(of?.period_seconds ?? 1)} />
    <Input label="At once (empty: no limit)" name="concurrency" type="number" min={1} value={String(of?.concurrency ?? '')} />
  </>
)

function Limits() {
  const loaded = useSettings('limits', 'limit', (page, signal) => get('/v1/limits', { query: page, signal }))
  const save = async (limit_name: string, { rate, period_seconds, concurrency }: Record<string, string>) => {
    const body = { rate: rate ? Number(rate) : null, period_seconds: Number(period_seconds), concurrency: concurrency ? Number(concurrency) : null }
    await put('/v1/limits/{limit_name}', { path: { limit_name }, body })
    sayAndReload('Saved.', loaded)
  }
  return (
    <Section
      label="Named limits"
      of={loaded}
      cursor="limits"
      id={(each) => each.name}
      empty="There is no named limit. Queues and endpoints can share one."
      columns={[
        ['name', (each) => <Text>{each.name}</Text>],
        ['rate', (each) => (each.rate === null ? '–' : `${each.rate} in ${each.period_seconds} s`), 'num'],
        ['concurrency', (each) => each.concurrency ?? '–', 'num'],
        [
          'actions',
          (each) => (
            <div class="acts">
              <Ask
                needs="manage"
                title={`Limit ${each.name}`}
                text="It holds for all queues and endpoints that name it."
                fields={<LimitFields of={each} />}
                act="Save the limit"
                run={(values) => save(each.name, values)}
              >
                Change the limit
              </Ask>
              <Ask
                needs="manage"
                title={`Delete the limit ${each.name}?`}
                text="Queues and endpoints that name it are not limited by it any more."
                act="Delete 1 limit"
                isDanger
                run={() => remove('/v1/limits/{limit_name}', { path: { limit_name: each.name } }).then(() => sayAndReload('Deleted.', loaded))}
              >
                Delete the limit
              </Ask>
            </div>
          ),
        ],
      ]}
    >
      <Ask
        needs="manage"
        title="New limit"
        text="Queues and endpoints that name it share it."
        fields={
          <>
            <NameField />
            <LimitFields />
          </>
        }
        act="Create the limit"
        run={async ({ name = '', ...values }) => {
          await checkIsNew('limit', name, (page) => get('/v1/limits', { query: page }))
          await save(name, values)
        }}
      >
        New limit
      </Ask>
    </Section>
  )
}
