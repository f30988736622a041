// Requests to the API, with types that are made from its description.

import { signal } from '@preact/signals'
import type { components, paths } from '../build/api'
import { parse, stringify } from './json'

export type Schemas = components['schemas']
export type Scope = Schemas['Permission']

export interface Session {
  tenant: string
  owner: string | null
  key_id: string | null
  scopes: Scope[]
  csrf_token: string
  expires_at: string
}

/** `undefined` until it is known; `null` while nobody is signed in. */
export const session = signal<Session | null | undefined>(undefined)
/** Why the sign-in page is shown. */
export const notice = signal('')
/** The tenant that an operator looks at; it is in the URL. */
export const tenant = signal(new URLSearchParams(location.search).get('tenant') ?? '')

/** When the server answered last, while it does not answer; `undefined` while it does. */
export const silentSince = signal<Date | undefined>(undefined)
let answeredAt = new Date()

function noteAnswer(isThere: boolean): void {
  if (isThere) {
    answeredAt = new Date()
    silentSince.value = undefined
  } else silentSince.value ??= answeredAt
}

/** What a proxy says whose server is gone. */
const GONE = [502, 504]

export const can = (scope: Scope): boolean => session.value?.scopes.includes(scope) ?? false

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly fields: { field: string; message: string }[] = [],
  ) {
    super(detail)
  }
}

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'
type PathsOf<M extends Method> = {
  [P in keyof paths]: paths[P] extends { [K in M]: { responses: unknown } } ? P : never
}[keyof paths]
type Operation<P extends keyof paths, M extends Method> = paths[P] extends { [K in M]: infer O } ? O : never
type Json<R> = R extends { content: { 'application/json': infer T } } ? T : undefined
type Answer<O> = O extends { responses: infer R } ? (R extends { 200: infer T } ? Json<T> : R extends { 201: infer T } ? Json<T> : undefined) : never
type Query<O> = O extends { parameters: { query?: infer Q } } ? Q : never
type Names<P> = P extends `${string}{${infer Name}}${infer Rest}` ? Name | Names<Rest> : never

interface Options<P extends keyof paths, M extends Method> {
  path?: Record<Names<P>, string>
  query?: { [K in keyof Query<Operation<P, M>>]?: Query<Operation<P, M>>[K] | string }
  /** Text is sent as it is, so that numbers keep their digits. */
  body?: unknown
  raw?: string
  version?: string
  /** Makes something, and changes nothing that exists. */
  isNew?: boolean
  signal?: AbortSignal
}

export function headers(): Record<string, string> {
  return tenant.value ? { 'Tickwork-Tenant': tenant.value } : {}
}

export async function send(method: string, url: string, body?: string, more: Record<string, string> = {}, abort?: AbortSignal) {
  const all: Record<string, string> = { ...headers(), ...more }
  if (method !== 'GET' && session.value) all['X-CSRF-Token'] = session.value.csrf_token
  if (body !== undefined) all['Content-Type'] = 'application/json'
  let answer: Response
  try {
    answer = await fetch(url, { method, headers: all, body, signal: abort })
  } catch (error) {
    if (abort?.aborted) throw error
    noteAnswer(false)
    throw new Problem(0, 'unreachable', 'The server does not answer. It may be restarting; this page tries again.')
  }
  noteAnswer(!GONE.includes(answer.status))
  const text = await answer.text()
  if (answer.ok) return { value: text ? parse(text) : undefined, version: answer.headers.get('ETag') ?? '' }
  let told: Partial<Schemas['Problem']> = {}
  try {
    told = JSON.parse(text) as Partial<Schemas['Problem']>
  } catch {
    // An answer of a proxy.
  }
  const problem = new Problem(answer.status, told.code ?? '', told.detail ?? answer.statusText, told.errors ?? [])
  if (answer.status === 401 && session.value) {
    notice.value = problem.message
    session.value = null
  }
  throw problem
}

async function call<P extends keyof paths, M extends Method>(method: M, path: P, options: Options<P, M> = {}) {
  const named = options.path as Record<string, string> | undefined
  let url = String(path).replace(/{(\w+)}/g, (_, name: string) => encodeURIComponent(named?.[name] ?? ''))
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(options.query ?? {})) {
    if (value !== undefined && value !== null) query.set(name, String(value))
  }
  if (query.size) url += `?${query}`
  const body = options.raw ?? (options.body === undefined ? undefined : stringify(options.body))
  const more: Record<string, string> = options.version ? { 'If-Match': options.version } : options.isNew ? { 'If-None-Match': '*' } : {}
  const answer = await send(method.toUpperCase(), url, body, more, options.signal)
  return answer as { value: Answer<Operation<P, M>>; version: string }
}

const value = <T>(answer: Promise<{ value: T }>): Promise<T> => answer.then((each) => each.value)

export const get = <P extends PathsOf<'get'>>(path: P, options?: Options<P, 'get'>) => value(call('get', path, options))
export const getWithVersion = <P extends PathsOf<'get'>>(path: P, options?: Options<P, 'get'>) => call('get', path, options)
export const post = <P extends PathsOf<'post'>>(path: P, options?: Options<P, 'post'>) => value(call('post', path, options))
export const put = <P extends PathsOf<'put'>>(path: P, options?: Options<P, 'put'>) => value(call('put', path, options))
export const patch = <P extends PathsOf<'patch'>>(path: P, options?: Options<P, 'patch'>) => value(call('patch', path, options))
export const remove = <P extends PathsOf<'delete'>>(path: P, options?: Options<P, 'delete'>) => value(call('delete', path, options))

export async function lookWhoIsSignedIn(): Promise<void> {
  try {
    session.value = (await send('GET', '/v1/session')).value as Session
  } catch (error) {
    if (error instanceof Problem && error.status === 0) throw error
    if (error instanceof Problem && error.code !== 'session_ended') notice.value = error.message
    session.value = null
  }
}

export async function signIn(key: string): Promise<void> {
  await send('POST', '/v1/session', JSON.stringify({ key }))
  await lookWhoIsSignedIn()
  if (session.value) notice.value = ''
  else notice.value = 'The browser did not keep the cookie. Open the console over https, or on the machine of the server.'
}

export async function signOut(): Promise<void> {
  await send('DELETE', '/v1/session')
  notice.value = 'You are signed out.'
  session.value = null
}
