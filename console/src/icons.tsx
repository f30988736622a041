// The mark, and a picture for each kind of thing: lines on a grid of 16.

const PATHS: Record<string, string> = {
  overview: 'M2 9.5h3l2-6 3 9 2-5h2',
  schedules: 'M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11M8 5v3.2l2.2 1.3',
  queues: 'M2.5 4h11M2.5 8h11M2.5 12h7',
  messages: 'M2.5 4h11v8h-11zM2.5 4.5L8 8.8l5.5-4.3',
  dead: 'M8 2.5l6 11H2zM8 6.5v3.2M8 11.5v.3',
  operations: 'M3 4.5l2 2 3-3M9.5 5h4M3 10.5l2 2 3-3M9.5 11.5h4',
  batches: 'M5.5 2.5h8v8h-8zM2.5 5.5v8h8',
  endpoints: 'M2.5 8h7M6.5 4.5L10 8l-3.5 3.5M13 3v10',
  deliveries: 'M14 2L2 7.2l4.6 2.1L8.8 14zM6.6 9.3L14 2',
  workflows: 'M2.5 3h4v4h-4zM9.5 9h4v4h-4zM4.5 7v4h5',
  entities: 'M8 2l5.2 3v6L8 14l-5.2-3V5zM8 8v6M8 8L2.8 5M8 8l5.2-3',
  forecast: 'M2.5 13.5h11M4.5 13V9M8 13V4M11.5 13V7',
  capacity: 'M2.5 12a5.5 5.5 0 1 1 11 0M8 12l3-4.2',
  usage: 'M2.5 2.5v11h11M5 10.5l2.5-3 2 1.8 3.5-4.8',
  nodes: 'M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.2M5 11h.2',
  types: 'M3 3.5h10M8 3.5v9M5.5 12.5h5',
  history: 'M2.6 8a5.4 5.4 0 1 0 1.8-4M2.5 2.5V5h2.5M8 5v3.2l2 1.2',
  audit: 'M4 2.5h8v11H4zM6 5.5h4M6 8h4M6 10.5h2.5',
  settings: 'M2.5 5h6M11.5 5h2M2.5 11h2M7.5 11h6M10 3.2v3.6M6 9.2v3.6',
}

/** A picture beside a word that says the same. */
export const Icon = ({ of }: { of: string }) => (
  <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
    <path d={PATHS[of] ?? 'M8 7.5v1'} />
  </svg>
)

export const Mark = () => (
  <svg class="mark" viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
    <circle cx="16" cy="16" r="14" />
    <path d="M16 7.5v8.5l5.5 4" />
  </svg>
)
