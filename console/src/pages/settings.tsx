// Settings: tenants and keys for the operator; calendars, limits and subscriptions for everybody.

import { can, get, patch, post, remove, type Schemas } from '../api'
import { useList, useLoad } from '../load'
import { A, Act, ask, Facts, Input, List, say, Show, State, Text, Time, Title } from '../parts'
import { path } from '../place'

/** Rows of each list: there are four on the page. */
const LIMIT = 50
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
  const loaded = useList('tenants', (page, signal) => get('/v1/tenants', { query: page, signal }), ['tenant'], { name: 'tenants', limit: LIMIT })
  return (
    <section aria-label="Tenants">
      <h2>Tenants</h2>
      <div class="row">
        <Act
          needs="admin"
          onAct={() =>
            ask({
              title: 'New tenant',
              fields: <Input label="Id" name="id" required maxLength={120} />,
              act: 'Create the tenant',
              run: async ({ id }) => {
                await post('/v1/tenants', { body: { id } })
                say('Created.')
                loaded.reload()
              },
            })
          }
        >
          New tenant
        </Act>
      </div>
      <List
        label="Tenants"
        of={loaded}
        cursor="tenants"
        id={(each) => each.id}
        empty="There is no tenant."
        columns={[
          ['tenant', (each) => <A to={path('settings', each.id)}><Text>{each.id}</Text></A>],
          ['state', (each) => <State is={each.suspended ? 'suspended' : 'active'} />],
          ['weight', (each) => each.weight, 'num'],
          ['quotas', (each) => quotas(each).map(([name, value]) => `${words(name)}: ${value}`).join(', ') || <span class="soft">none</span>],
        ]}
      />
    </section>
  )
}

const QUOTAS = ['schedules_max', 'schedules_per_second', 'messages_per_second', 'min_interval_seconds', 'payload_bytes_max', 'backlog_max', 'claimed_max'] as const
const words = (name: string): string => name.replaceAll('_', ' ')
const quotas = (tenant: Schemas['Tenant']) => QUOTAS.map((name) => [name, tenant[name]] as const).filter(([, value]) => value != null)

export function TenantPage({ tenant: _, params }: { tenant?: string; params?: Record<string, string> }) {
  return <Tenant id={params?.tenant ?? ''} />
}

function Tenant({ id }: { id: string }) {
  const named = { path: { tenant: id } }
  const loaded = useLoad(`tenant ${id}`, (signal) => get('/v1/tenants/{tenant}', { ...named, signal }), ['tenant'])
  const done = (text: string) => {
    say(text)
    loaded.reload()
  }
  return (
    <Show of={loaded}>
      {(data) => (
        <>
          <Title kind="Tenant" note={<State is={data.suspended ? 'suspended' : 'active'} />}>{id}</Title>
          <div class="row">
            {data.suspended ? (
              <Act needs="admin" isMain onAct={() => post('/v1/tenants/{tenant}/resume', named).then(() => done('Resumed.'))}>
                Resume
              </Act>
            ) : (
              <Act
                needs="admin"
                isDanger
                onAct={() =>
                  ask({
                    title: `Suspend the tenant ${id}?`,
                    text: 'Its keys are refused and none of its messages are claimed, until it is resumed.',
                    act: 'Suspend 1 tenant',
                    isDanger: true,
                    run: async () => {
                      await post('/v1/tenants/{tenant}/suspend', named)
                      done('Suspended.')
                    },
                  })
                }
              >
                Suspend
              </Act>
            )}
            <Act
              needs="admin"
              onAct={() =>
                ask({
                  title: `Quotas of ${id}`,
                  text: 'An empty field means no quota.',
                  fields: QUOTAS.map((name) => <Input key={name} label={words(name)} name={name} type="number" min={0} step="any" value={String(data[name] ?? '')} />),
                  act: 'Save the quotas',
                  run: async (values) => {
                    const body = Object.fromEntries(QUOTAS.map((name) => [name, values[name] ? Number(values[name]) : null]))
                    await patch('/v1/tenants/{tenant}', { ...named, body })
                    done('Saved.')
                  },
                })
              }
            >
              Change quotas
            </Act>
          </div>
          <Facts of={[['weight', data.weight], ...QUOTAS.map((name) => [words(name), data[name]] as [string, number | null]), ['targets of owners', data.owner_targets.join(', ')]]} />
          <Keys tenant={id} />
        </>
      )}
    </Show>
  )
}

function Keys({ tenant }: { tenant: string }) {
  const loaded = useList(`keys ${tenant}`, (page, signal) => get('/v1/tenants/{tenant}/keys', { path: { tenant }, query: page, signal }), ['key'])
  const showToken = (token: string) =>
    ask({ title: 'The key', text: 'It is shown once.', fields: <pre>{token}</pre>, act: 'I have stored it', run: () => Promise.resolve() })
  const create = () =>
    ask({
      title: `New API key of ${tenant}`,
      fields: (
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
      ),
      act: 'Create the key',
      run: async (values) => {
        const scopes = SCOPES.filter((each) => values[`scope ${each}`])
        const made = await post('/v1/tenants/{tenant}/keys', { path: { tenant }, body: { name: values.name, scopes, owner: values.owner || undefined } })
        loaded.reload()
        showToken(made.token)
      },
    })
  return (
    <section aria-label="API keys">
      <h2>API keys</h2>
      <div class="row">
        <Act needs="admin" onAct={create}>
          New key
        </Act>
      </div>
      <List
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
            (each) =>
              !each.revoked_at && (
                <div class="acts">
                  <Act
                    needs="admin"
                    onAct={() =>
                      ask({
                        title: `Rotate the key ${each.name}?`,
                        text: 'It gets a new secret. The one before works for another day.',
                        act: 'Rotate 1 key',
                        run: async () => {
                          const made = await post('/v1/tenants/{tenant}/keys/{key}/rotate', { path: { tenant, key: each.id }, body: {} })
                          showToken(made.token)
                        },
                      })
                    }
                  >
                    Rotate
                  </Act>
                  <Act
                    needs="admin"
                    isDanger
                    onAct={() =>
                      ask({
                        title: `Revoke the key ${each.name}?`,
                        text: 'Programs that use it are refused within three seconds, and its sessions end.',
                        act: 'Revoke 1 key',
                        isDanger: true,
                        run: async () => {
                          await remove('/v1/tenants/{tenant}/keys/{key}', { path: { tenant, key: each.id } })
                          say('Revoked.')
                          loaded.reload()
                        },
                      })
                    }
                  >
                    Revoke
                  </Act>
                </div>
              ),
          ],
        ]}
      />
    </section>
  )
}

function Calendars() {
  const loaded = useList('calendars', (page, signal) => get('/v1/calendars', { query: page, signal }), ['calendar'], { name: 'calendars', limit: LIMIT })
  return (
    <section aria-label="Calendars">
      <h2>Calendars: days off</h2>
      <List
        label="Calendars"
        of={loaded}
        cursor="calendars"
        id={(each) => each.name}
        empty="There is no calendar. Schedules skip the days off of their calendar."
        columns={[
          ['calendar', (each) => <Text>{each.name}</Text>],
          ['days', (each) => each.days.length, 'num'],
          ['next days off', (each) => each.days.filter((day) => day >= new Date().toISOString().slice(0, 10)).slice(0, 5).join(', ')],
          ['updated', (each) => <Time at={each.updated_at} />],
        ]}
      />
    </section>
  )
}

function Subscriptions() {
  const loaded = useList('subscriptions', (page, signal) => get('/v1/subscriptions', { query: page, signal }), ['subscription'], { name: 'subscriptions', limit: LIMIT })
  return (
    <section aria-label="Subscriptions">
      <h2>Subscriptions</h2>
      <List
        label="Subscriptions"
        of={loaded}
        cursor="subscriptions"
        id={(each) => `${each.types} ${each.queue}`}
        empty="No queue subscribes to a type of events."
        columns={[
          ['types', (each) => <Text>{each.types}</Text>],
          ['queue', (each) => <A to={path('queues', each.queue)}><Text>{each.queue}</Text></A>],
        ]}
      />
    </section>
  )
}

function Limits() {
  const loaded = useList('limits', (page, signal) => get('/v1/limits', { query: page, signal }), ['limit'], { name: 'limits', limit: LIMIT })
  return (
    <section aria-label="Named limits">
      <h2>Named limits</h2>
      <List
        label="Named limits"
        of={loaded}
        cursor="limits"
        id={(each) => each.name}
        empty="There is no named limit. Queues and endpoints can share one."
        columns={[
          ['name', (each) => <Text>{each.name}</Text>],
          ['rate', (each) => (each.rate === null ? '–' : `${each.rate} in ${each.period_seconds} s`), 'num'],
          ['concurrency', (each) => each.concurrency ?? '–', 'num'],
        ]}
      />
    </section>
  )
}
