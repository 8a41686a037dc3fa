/** The one way to the server over HTTP: typed calls, the CSRF header, problems as `ApiError`, and notice of lost sessions. */
import createClient, { type Middleware } from "openapi-fetch";

import type { paths, Problem } from "@/wire/schema";

import { authStore } from "./auth";

/** A refusal by the server, or `status` 0 when it could not be reached. `message` is one sentence for a person. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly retryable: boolean;
  readonly requestId: string | null;
  readonly errors: Record<string, string[]>;

  constructor(status: number, problem: Partial<Problem> = {}) {
    super(
      problem.detail ??
        (status === 0 ? "The server cannot be reached" : `The server answered with an error (${status})`),
    );
    this.name = "ApiError";
    this.status = status;
    this.code = problem.code ?? (status === 0 ? "unreachable" : "unknown");
    this.retryable = problem.retryable ?? (status === 0 || status >= 500);
    this.requestId = problem.request_id ?? null;
    this.errors = problem.errors ?? {};
  }
}

export function readCookie(name: string): string | null {
  const entry = document.cookie.split("; ").find((part) => part.startsWith(`${name}=`));
  return entry ? decodeURIComponent(entry.slice(name.length + 1)) : null;
}

const session: Middleware = {
  onRequest({ request }) {
    const token = readCookie("csrftoken");
    if (token && !["GET", "HEAD"].includes(request.method)) request.headers.set("X-CSRFToken", token);
    return request;
  },
  onResponse({ response, schemaPath }) {
    if (response.status === 401 && !schemaPath.startsWith("/api/auth/")) authStore.getState().expire();
  },
};

export const api = createClient<paths>({
  baseUrl: window.location.origin,
  // Looked up at each call: whatever replaces `fetch` later, a test or a tool, is respected.
  fetch: (request) => globalThis.fetch(request),
});
api.use(session);

interface Answered<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The body of a successful answer. Throws `ApiError` for everything else, a lost connection included. */
export async function body<T>(call: Promise<Answered<T>>): Promise<T> {
  let answer: Answered<T>;
  try {
    answer = await call;
  } catch {
    throw new ApiError(0);
  }
  if (answer.response.ok) return answer.data as T;
  const problem = answer.error;
  throw new ApiError(
    answer.response.status,
    typeof problem === "object" && problem !== null ? (problem as Partial<Problem>) : {},
  );
}

/** A random UUID. `crypto.randomUUID` does not exist on pages served without TLS, other than on localhost. */
export function makeKey(): string {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
