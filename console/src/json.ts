// JSON without loss: a number that a double cannot hold keeps its digits.

export class Exact {
  constructor(readonly digits: string) {}
  toString(): string {
    return this.digits
  }
}

// In no text of a server: it is made anew for each page.
const MARK = `\u0000${crypto.getRandomValues(new Uint32Array(2)).join('')}:`
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g

/** A double holds every number of 15 significant digits, and of the longer ones those it writes back. */
function isHeldByDouble(digits: string): boolean {
  const value = Number(digits)
  const significant = digits.replace(/[eE].*|[.-]/g, '').replace(/^0+/, '')
  if (significant.length <= 15) return Number.isFinite(value) && (value !== 0 || significant === '')
  return String(value) === digits
}

export function parse(text: string): unknown {
  if (!/\d{15}|\d[eE]/.test(text)) return JSON.parse(text)
  let found = false
  const marked = text.replace(TOKEN, (token) => {
    if (token.startsWith('"') || isHeldByDouble(token)) return token
    found = true
    return JSON.stringify(MARK + token)
  })
  if (!found) return JSON.parse(text)
  return JSON.parse(marked, (_, value: unknown) => (typeof value === 'string' && value.startsWith(MARK) ? new Exact(value.slice(MARK.length)) : value))
}

export function stringify(value: unknown, indent = 0, before = ''): string {
  if (value instanceof Exact) return value.digits
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null'
  const inner = before + ' '.repeat(indent)
  const isList = Array.isArray(value)
  const parts = isList
    ? value.map((each) => stringify(each, indent, inner))
    : Object.entries(value)
        .filter(([, each]) => each !== undefined)
        .map(([name, each]) => `${JSON.stringify(name)}:${indent ? ' ' : ''}${stringify(each, indent, inner)}`)
  const [open, close] = isList ? '[]' : '{}'
  if (!parts.length) return `${open}${close}`
  const line = indent ? `\n${inner}` : ''
  return `${open}${line}${parts.join(`,${line}`)}${indent ? `\n${before}` : ''}${close}`
}
