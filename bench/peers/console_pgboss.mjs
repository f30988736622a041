// Fills pg-boss with many failed jobs: `console_pgboss.mjs HOME URL COUNT`. Its web page is a program of its own.

import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [home, url, count] = process.argv.slice(2)
const found = createRequire(`${home}/package.json`).resolve('pg-boss')
const { PgBoss } = await import(pathToFileURL(found).href)

const AT_ONCE = 1_000
const boss = new PgBoss({ connectionString: url, schedule: false, supervise: false })
await boss.start()
await boss.createQueue('bench')
for (let sent = 0; sent < Number(count); sent += AT_ONCE) {
  const jobs = Array.from({ length: Math.min(AT_ONCE, count - sent) }, () => ({ data: { to: 'user@example.com', n: 1 } }))
  await boss.insert('bench', jobs)
}
await boss.getDb().executeSql(
  `UPDATE pgboss.job SET state = 'failed', started_on = now(), completed_on = now(),
     output = '{"message": "no such mailbox"}'`,
)
await boss.stop({ graceful: false })
