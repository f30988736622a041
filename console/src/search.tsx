// The box at the top of every page: finds a thing of any kind by an id, a name, an owner, a key.

import { useEffect, useRef, useState } from 'preact/hooks'
import { get, type Schemas, tenant } from './api'
import { Icon } from './icons'
import { explain } from './parts'
import { path, usePlace } from './place'

const WAIT_MS = 200

/** The types of Preact ask a combobox for a datalist, which cannot show kinds and notes. */
const COMBOBOX = { role: 'combobox' } as object

type Finding = Schemas['Finding']

/** The page of a thing, and the picture of its kind. */
const PLACES: Record<string, [icon: string, to: (found: Finding) => string]> = {
  schedule: ['schedules', ({ id }) => path('schedules', id)],
  queue: ['queues', ({ id }) => path('queues', id)],
  endpoint: ['endpoints', ({ id }) => path('endpoints', id)],
  workflow: ['workflows', ({ id }) => path('workflows', id)],
  run: ['workflows', ({ id, parent }) => path('workflows', parent ?? '', id)],
  'entity type': ['entities', ({ id }) => path('entities', id)],
  entity: ['entities', ({ id, parent }) => path('entities', parent ?? '', id)],
  message: ['messages', ({ id }) => path('messages', id)],
  dead_letter: ['dead', ({ id }) => path('letters', id)],
  delivery: ['deliveries', ({ id }) => path('deliveries', id)],
  batch: ['batches', ({ id }) => path('batches', id)],
  trace: ['history', ({ id }) => path('trace', id)],
}

export function Search() {
  const { go } = usePlace()
  const [text, setText] = useState('')
  const [found, setFound] = useState<{ items: readonly Finding[]; note: string }>()
  const [at, setAt] = useState(0)
  const box = useRef<HTMLInputElement>(null)
  const wanted = text.trim()
  useEffect(() => {
    setAt(0)
    if (!wanted) return setFound(undefined)
    const stop = new AbortController()
    const timer = setTimeout(() => {
      get('/v1/search', { query: { q: wanted }, signal: stop.signal })
        .then(({ items, is_cut }) => {
          const known = items.filter(({ kind }) => kind in PLACES)
          setFound({
            items: known,
            note: known.length ? (is_cut ? 'Five of each kind are shown.' : '') : 'Nothing has this id, or a name that begins with it.',
          })
        })
        .catch((error: unknown) => stop.signal.aborted || setFound({ items: [], note: explain(error) }))
    }, WAIT_MS)
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [wanted, tenant.value])
  const leave = () => {
    setText('')
    box.current?.blur()
  }
  const open = (finding: Finding | undefined) => {
    if (!finding) return
    go(PLACES[finding.kind]![1](finding))
    leave()
  }
  const onKey = (event: KeyboardEvent) => {
    const items = found?.items ?? []
    if (event.key === 'ArrowDown') setAt(Math.min(at + 1, items.length - 1))
    else if (event.key === 'ArrowUp') setAt(Math.max(at - 1, 0))
    else if (event.key === 'Enter') open(items[at])
    else if (event.key === 'Escape') leave()
    else return
    event.preventDefault()
  }
  const isOpen = wanted !== '' && found !== undefined
  return (
    <search class="find" onFocusOut={({ relatedTarget, currentTarget }) => !currentTarget.contains(relatedTarget as Node | null) && setText('')}>
      <label>
        <span class="unseen">Find anything</span>
        <input
          ref={box}
          type="search"
          value={text}
          placeholder="Find an id, name, owner, key …"
          autocomplete="off"
          spellcheck={false}
          data-find
          {...COMBOBOX}
          aria-expanded={isOpen}
          aria-controls="found"
          aria-activedescendant={isOpen && found.items.length ? `found-${at}` : undefined}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={onKey}
        />
      </label>
      <div id="found" class="found" role="listbox" aria-label="What was found" hidden={!isOpen}>
        {found?.items.map((finding, index) => (
          <button
            type="button"
            role="option"
            tabIndex={-1}
            id={`found-${index}`}
            key={`${finding.kind} ${finding.parent} ${finding.id}`}
            aria-selected={index === at}
            onClick={() => open(finding)}
          >
            <Icon of={PLACES[finding.kind]![0]} />
            <span>
              <bdi>{finding.name}</bdi>
              <span class="soft">
                {finding.kind.replace('_', ' ')}
                {finding.parent && (
                  <>
                    {' '}
                    of <bdi>{finding.parent}</bdi>
                  </>
                )}
                {finding.note && (
                  <>
                    {' '}
                    · <bdi>{finding.note}</bdi>
                  </>
                )}
              </span>
            </span>
          </button>
        ))}
      </div>
      {isOpen && found.note && (
        <p class="found note soft" role="status">
          {found.note}
        </p>
      )}
    </search>
  )
}
