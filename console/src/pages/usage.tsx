// What tenants used, in a time and in each period of it.

import { can, get, type Schemas } from '../api'
import { useLoad } from '../load'
import { amount, type Column, Filter, Show, Table, Text, Time, Title } from '../parts'
import { usePlace } from '../place'
import { duration } from '../time'

const WIDTHS = ['hour', 'day'] as const
const ALL = ['all tenants'] as const

const COLUMNS: Column<Schemas['UsagePeriod']>[] = [
  ['tenant', (each) => <Text>{each.tenant}</Text>],
  ['handled', (each) => amount(each.handled), 'num'],
  ['failed', (each) => amount(each.failed), 'num'],
  ['discarded', (each) => amount(each.discarded), 'num'],
  ['deliveries', (each) => amount(each.deliveries), 'num'],
  ['entity calls', (each) => amount(each.entity_calls), 'num'],
  ['handlers ran', (each) => duration(each.handler_seconds), 'num'],
]

export function Usage() {
  const { query } = usePlace()
  const by = WIDTHS.find((name) => name === query.by) ?? 'day'
  const { since, until } = query
  const tenant = query.of === ALL[0] ? '*' : undefined
  const loaded = useLoad(`used ${by} ${since} ${until} ${tenant}`, (signal) => get('/v1/usage', { query: { by, since, until, tenant }, signal }), ['message.'])
  return (
    <>
      <Title>Usage</Title>
      <p class="soft">What ended, in UTC: the last 24 hours or 30 days, unless you give a time. Kept for 400 days.</p>
      <div class="row">
        <Filter name="by" label="By" choices={WIDTHS} initial="day" />
        <Filter name="since" label="Since" hint="2027-01-01T00:00:00Z" />
        <Filter name="until" label="Until" hint="2027-02-01T00:00:00Z" />
        {can('admin') && <Filter name="of" label="Tenants" choices={['own', ...ALL]} initial="own" />}
      </div>
      <Show of={loaded}>
        {({ used }) => (
          <>
            <Table label="In all" items={used?.totals ?? []} id={(each) => each.tenant} empty="Nothing was used in this time." columns={COLUMNS} />
            {used && used.periods.length > 0 && (
              <>
                <h2>Each {by}</h2>
                <Table
                  label={`Each ${by}`}
                  items={[...used.periods].reverse()}
                  id={(each) => `${each.period} ${each.tenant}`}
                  empty=""
                  columns={[['begins', (each) => <Time at={each.period} isLong />], ...COLUMNS]}
                />
              </>
            )}
          </>
        )}
      </Show>
    </>
  )
}
