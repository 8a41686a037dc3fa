/**
 * One open conversation: loads its messages, keeps its socket, sends, stops, and turns what arrives into `ChatState`.
 * Lives outside React so that a page change, a re-render or signing in again disturbs nothing.
 */
import { createStore, type StoreApi } from "zustand/vanilla";

import { api, ApiError, body, makeKey } from "@/app/api";
import { authStore, onSignIn } from "@/app/auth";
import { words } from "@/app/words";

import { draftKey, draftRead, draftWrite } from "./drafts";
import { takeFrame } from "./frames";
import { type Incoming, Link, socketUrl, type LinkState } from "./link";
import { applyEvent, freshRun, type LiveRun } from "./live";
import {
  type ChatState,
  emptyState,
  failureOf,
  failuresOf,
  headOf,
  isActive,
  lastContiguous,
  mergeMessages,
  needsRuns,
  STILL,
  thoughtOf,
  tickClock,
} from "./state";
import type {
  ConversationBody,
  MessageBody,
  Refused,
  RunBody,
  RunEvent,
  RunStatus,
  Unconfirmed,
} from "./types";

const PAGE = 60;
const POLL_WHEN_BLIND = 2_000;
/** The server closes a socket whose frame is larger than 1 MiB; escapes may make a frame longer than its text. */
const LONGEST_BYTES = 900_000;

export interface SessionHooks {
  /** The first message has made the conversation. */
  onCreated: (conversation: ConversationBody, session: ChatSession) => void;
  /** A turn has begun or ended: lists that show this conversation are out of date. */
  onActivity: () => void;
  /** The conversation as the server has it now. */
  onLoaded: (conversation: ConversationBody) => void;
}

export class ChatSession {
  /** Names the object itself: it stays the same when a new chat gets its id. */
  readonly key = makeKey();
  readonly store: StoreApi<ChatState>;
  /** Runs whose end has been seen: the server may follow them once more, and that must change nothing. */
  readonly ended = new Set<string>();
  private link: Link | null = null;
  private buffer: RunEvent[] = [];
  private flushing = false;
  private polling: ReturnType<typeof setInterval> | undefined;
  private endSignIn: () => void;
  private readonly userId = authStore.getState().user?.id ?? 0;

  constructor(
    id: string | null,
    private readonly hooks: SessionHooks,
  ) {
    this.store = createStore<ChatState>()(() => emptyState(id, draftRead(draftKey(this.userId, id))));
    this.endSignIn = onSignIn(this.resume);
    if (id !== null) void this.load();
  }

  get state(): ChatState {
    return this.store.getState();
  }

  patch(change: Partial<ChatState>): void {
    this.store.setState(change);
  }

  dispose(): void {
    this.endSignIn();
    clearInterval(this.polling);
    this.link?.stop();
  }

  // ---- loading -----------------------------------------------------------------------------------------------------

  readonly load = async (): Promise<void> => {
    const id = this.state.id!;
    this.patch({ phase: "loading", loadError: null });
    const path = { conversation_id: id };
    try {
      const [conversation, page] = await Promise.all([
        body(api.GET("/api/conversations/{conversation_id}", { params: { path } })),
        body(
          api.GET("/api/conversations/{conversation_id}/messages", {
            params: { path, query: { limit: PAGE } },
          }),
        ),
      ]);
      const run = conversation.active_run;
      this.hooks.onLoaded(conversation);
      // A message that was accepted just as the page was closed is not unsent any more.
      const newest = page.results.findLast((message) => message.role === "user");
      const draft = newest && newest.content === this.state.draft.trim() ? "" : this.state.draft;
      if (draft !== this.state.draft) this.setDraft(draft);
      this.patch({ phase: "ready", messages: page.results, hasBefore: page.has_before });
      if (run) this.follow(run);
      this.connect();
      await this.explain();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 404) this.patch({ phase: "missing" });
      else this.patch({ phase: "failed", loadError: error.message });
    }
  };

  readonly loadOlder = async (): Promise<void> => {
    const { id, messages, hasBefore, before } = this.state;
    if (id === null || !hasBefore || before === "loading") return;
    this.patch({ before: "loading" });
    try {
      const page = await body(
        api.GET("/api/conversations/{conversation_id}/messages", {
          params: { path: { conversation_id: id }, query: { before: messages[0]!.seq, limit: PAGE } },
        }),
      );
      this.patch({
        messages: mergeMessages(this.state.messages, page.results),
        hasBefore: page.has_before,
        before: "idle",
      });
      await this.explain(page.results);
    } catch {
      this.patch({ before: "failed" });
    }
  };

  /** Everything stored after what is here without a hole. */
  readonly fetchNewer = async (): Promise<void> => {
    const { id } = this.state;
    if (id === null) return;
    for (let after = lastContiguous(this.state.messages); ;) {
      const page = await body(
        api.GET("/api/conversations/{conversation_id}/messages", {
          params: { path: { conversation_id: id }, query: { after, limit: PAGE } },
        }),
      );
      this.patch({ messages: mergeMessages(this.state.messages, page.results) });
      const reached = headOf(page.results);
      // A page that leads no further would be asked for again and again.
      if (!page.has_after || reached <= after) return;
      after = reached;
    }
  };

  /** Asks why questions have no answer, when there are such questions. */
  private async explain(messages: MessageBody[] = this.state.messages): Promise<void> {
    const { id } = this.state;
    if (id === null || !needsRuns(messages)) return;
    const runs = await body(api.GET("/api/runs", { params: { query: { conversation: id } } })).catch(
      () => null,
    );
    if (runs) this.patch({ failures: { ...failuresOf(runs.results), ...this.state.failures } });
  }

  /** What happened while nobody was connected. */
  readonly sync = async (): Promise<void> => {
    const { id } = this.state;
    if (id === null) return;
    try {
      const conversation = await body(
        api.GET("/api/conversations/{conversation_id}", { params: { path: { conversation_id: id } } }),
      );
      // A hole is what a turn's steps leave when they could not be fetched at its end.
      if (conversation.head !== lastContiguous(this.state.messages)) await this.fetchNewer();
      const run = conversation.active_run;
      if (run && run.id !== this.state.live?.runId && !this.ended.has(run.id)) {
        this.follow(run);
        this.attach();
      } else if (!run && this.state.live && !this.state.pending) {
        await this.concludeByRow(this.state.live.runId);
      }
      await this.explain();
    } catch {
      // The socket is open, so this is a passing failure; the next reconnect or event tells the same again.
    }
  };

  // ---- connection --------------------------------------------------------------------------------------------------

  private connect(): void {
    if (this.link) return this.link.retryNow();
    this.link = new Link(socketUrl(this.state.id!), {
      onState: this.takeLinkState,
      onOpen: this.opened,
      onFrame: this.take,
    });
    this.link.start();
  }

  readonly reconnect = (): void => this.link?.retryNow();

  private readonly takeLinkState = (link: LinkState): void => {
    this.patch({ link });
    if (link.kind === "signed_out") authStore.getState().expire();
    if (link.kind === "gone") this.patch({ phase: "missing" });
  };

  private readonly opened = (): void => {
    this.transmit();
    this.attach();
    // What was sent to the answer and not confirmed: sending it again under its key does nothing twice.
    for (const item of this.state.steering) this.transmitSteer(item);
    if (!this.state.pending) void this.sync();
  };

  /** After signing in again: everything that was refused is done now. */
  private readonly resume = (): void => {
    const { id, phase, pending } = this.state;
    if (id === null) {
      if (pending) void this.create();
    } else if (phase === "failed" || phase === "loading") void this.load();
    else this.connect();
  };

  /** Asks for the running answer's events after what is here. */
  attach(): void {
    const { live } = this.state;
    if (!live) return;
    const attach = { type: "attach", run_id: live.runId, after: live.seq, epoch: live.epoch } as const;
    if (this.link?.send(attach)) this.setLiveAvailable(true);
  }

  private follow(run: RunBody): void {
    const startedAt = Math.min(Date.now(), Date.parse(run.started_at ?? run.created_at));
    this.begin({ ...freshRun(run.id, null), userSeq: run.user_message_seq }, startedAt);
  }

  /** Shows `run` as the one that is being answered. */
  begin(run: LiveRun, startedAt = Date.now()): void {
    this.buffer = [];
    const clock = { ...STILL, startedAt, lastOutputAt: Date.now() };
    this.patch({ live: run, clock, stopping: false });
  }

  // ---- what a person does ------------------------------------------------------------------------------------------

  readonly setDraft = (draft: string): void => {
    this.patch({ draft });
    this.saveDraft();
  };

  /** Sends `content` as a new turn. False when a turn is still going on or there is nothing to send. */
  readonly send = (content: string, clientKey = makeKey()): boolean => {
    const { live, pending, phase, messages, clock } = this.state;
    const text = content.trim();
    if (!text || live || pending || (phase !== "ready" && phase !== "new")) return false;
    if (this.isTooLong(text)) return false;
    const now = Date.now();
    this.patch({
      pending: { clientKey, content: text, expectedHead: headOf(messages) },
      clock: { ...clock, ...STILL, startedAt: now, lastOutputAt: now },
      notice: null,
    });
    if (this.state.id === null) void this.create();
    else this.transmit();
    return true;
  };

  /** Sends what is in the message box, to the running answer if there is one; the box keeps what could not be sent. */
  readonly sendDraft = (): boolean => {
    const { draft, live } = this.state;
    if (!(live ? this.steer(draft) : this.send(draft))) return false;
    this.setDraft("");
    return true;
  };

  /** Sends `content` to the answer that is being written. False when there is none or nothing to send. */
  readonly steer = (content: string): boolean => {
    const { live, steering } = this.state;
    const text = content.trim();
    if (!text || !live || this.isTooLong(text)) return false;
    const item = { clientKey: makeKey(), content: text };
    this.patch({ steering: [...steering, item], notice: null });
    this.transmitSteer(item);
    return true;
  };

  /** Takes back a message that still waits; its text returns to the box when the server has let it go. */
  readonly withdraw = (steerId: string): void => {
    if (this.link?.send({ type: "withdraw", steer_id: steerId })) return;
    this.patch({ notice: { text: words.offline, action: "dismiss" } });
  };

  /** The run was over, or the message cannot be: it becomes the next turn, goes to the next run, or back to the box. */
  steerRefused(frame: Refused): void {
    const { steering, live, pending, draft } = this.state;
    const item = steering.find(({ clientKey }) => clientKey === frame.client_key);
    if (!item) return;
    const ended = frame.code === "run_ended";
    const another = live !== null && live.runId !== frame.details?.run_id;
    if (ended && another) return this.transmitSteer(item);
    this.patch({ steering: steering.filter((other) => other !== item) });
    if (ended && live) this.ended.add(live.runId);
    if (ended && live) this.patch({ live: null, stopping: false });
    if (ended && !pending && this.send(item.content, item.clientKey)) return;
    this.setDraft([item.content, draft].filter(Boolean).join("\n\n"));
    this.patch({ notice: { text: frame.message, action: "dismiss" } });
  }

  private transmitSteer({ clientKey, content }: Unconfirmed): void {
    const { live } = this.state;
    if (!live) return;
    this.link?.send({ type: "steer", run_id: live.runId, client_key: clientKey, content });
  }

  private isTooLong(text: string): boolean {
    const bytes = new TextEncoder().encode(text).length;
    if (bytes <= LONGEST_BYTES) return false;
    this.patch({ notice: { text: words.tooLong(Math.ceil(bytes / 1000)), action: "dismiss" } });
    return true;
  }

  readonly stop = (): void => {
    const { live } = this.state;
    if (!live || this.state.stopping) return;
    this.patch({ stopping: true });
    if (this.link?.send({ type: "stop", run_id: live.runId })) return;
    const params = { path: { run_id: live.runId } };
    body(api.POST("/api/runs/{run_id}/stop", { params })).catch((error: ApiError) => {
      this.patch({ stopping: false, notice: { text: error.message, action: "dismiss" } });
    });
  };

  readonly keepWaiting = (): void => this.patch({ clock: { ...this.state.clock, lastOutputAt: Date.now() } });

  readonly loadNewer = (): void => {
    this.patch({ notice: null });
    void this.sync();
  };

  readonly dismissNotice = (): void => this.patch({ notice: null });

  private async create(): Promise<void> {
    try {
      const conversation = await body(api.POST("/api/conversations", { body: { title: null } }));
      this.patch({ id: conversation.id, phase: "ready" });
      draftWrite(draftKey(this.userId, null), "");
      this.saveDraft();
      this.hooks.onCreated(conversation, this);
      this.connect();
    } catch (error) {
      // Without a session the text waits behind the sign-in dialog, and `resume` sends it.
      if (error instanceof ApiError && error.status === 401) return;
      this.giveBack(error instanceof ApiError ? error.message : words.failed);
    }
  }

  private transmit(): void {
    const { pending } = this.state;
    if (!pending) return;
    this.link?.send({
      type: "send",
      client_key: pending.clientKey,
      content: pending.content,
      expected_head: pending.expectedHead,
    });
  }

  /** The question was not taken: its text goes back into the box, before whatever was typed meanwhile. */
  giveBack(reason: string, action: "retry" | "load_newer" | "dismiss" = "retry"): void {
    const { pending, draft } = this.state;
    const text = pending ? [pending.content, draft].filter(Boolean).join("\n\n") : draft;
    this.patch({ pending: null, notice: { text: reason, action } });
    this.setDraft(text);
  }

  /** Until the server has confirmed a question, a reload must give it back. */
  saveDraft(): void {
    const { id, pending, steering, draft } = this.state;
    const unsent = [pending?.content, ...steering.map(({ content }) => content), draft]
      .filter(Boolean)
      .join("\n\n");
    draftWrite(draftKey(this.userId, id), unsent);
  }

  announce(text: string): void {
    this.patch({ announcement: { text, number: this.state.announcement.number + 1 } });
  }

  // ---- what arrives ------------------------------------------------------------------------------------------------

  readonly take = (frame: Incoming): void => {
    if (!("seq" in frame)) {
      this.flush();
      takeFrame(this, frame);
      return;
    }
    this.buffer.push(frame);
    if (this.flushing) return;
    // One store write for each frame that is painted; a hidden page paints none.
    this.flushing = true;
    if (document.visibilityState === "hidden") setTimeout(this.flush, 250);
    else requestAnimationFrame(this.flush);
  };

  readonly flush = (): void => {
    this.flushing = false;
    const events = this.buffer;
    const before = this.state.live;
    this.buffer = [];
    if (!before || events.length === 0) return;
    const after = events.reduce(applyEvent, before);
    if (after === before) return;
    const clock = tickClock(this.state.clock, before, after, Date.now());
    const messages = after.message
      ? mergeMessages(this.state.messages, before.message ? [] : [after.message])
      : this.state.messages;
    this.patch({ live: after, clock, messages });
    if (after.gap && !before.gap) this.attach();
    if (before.text === "" && before.thinking === "" && (after.text || after.thinking)) {
      this.announce(words.announce.started);
    }
    const { waiting } = this.state;
    const taken = new Set(events.flatMap((event) => (event.type === "steer" ? [event.data.steer_id] : [])));
    if (waiting && taken.size > 0) {
      const steers = waiting.steers.filter((steer) => !taken.has(steer.id));
      this.patch({ waiting: { ...waiting, steers } });
    }
    const known = after.userSeq === null || messages.some((message) => message.seq === after.userSeq);
    if (!known) void this.fetchNewer().catch(() => undefined);
    if (!after.closed) return;
    // Steps are stored without an event each: they are fetched before the live ones go.
    const steps = after.steps.length > 0 ? this.fetchNewer().catch(() => undefined) : null;
    const conclude = (): void => this.conclude(after, after.closed!);
    if (steps) void steps.then(conclude);
    else conclude();
  };

  /** The run is over: what it left is shown from now on, and the next message can be sent. */
  conclude(run: LiveRun, status: RunStatus): void {
    const { clock, thoughts, failures, waiting } = this.state;
    // The end may be learnt twice, and while steps were fetched the next run may have begun.
    const shown = this.state.live?.runId === run.runId;
    if (!shown && this.ended.has(run.runId)) return;
    this.ended.add(run.runId);
    const thought = thoughtOf(run, clock, Date.now());
    const failure = failureOf(run.runId, status, run.error, true);
    this.patch({
      ...(shown && { live: null, stopping: false }),
      ...(waiting?.runId === run.runId && { waiting: null }),
      thoughts: thought ? { ...thoughts, [run.runId]: thought } : thoughts,
      failures: failure && run.userSeq !== null ? { ...failures, [run.userSeq]: failure } : failures,
    });
    if (status === "completed") this.announce(words.announce.finished);
    if (status === "cancelled") this.announce(words.announce.stopped);
    if (status === "failed" || status === "interrupted") this.announce(words.announce.failed);
    // Only those who listen to a run are told that live text is back, and nobody does any more.
    if (shown) this.setLiveAvailable(true);
    this.hooks.onActivity();
    // What the server never confirmed goes on as the next turn; what it did is one already.
    const left = this.state.steering[0];
    if (left && !this.state.live && !this.state.pending && this.send(left.content, left.clientKey)) {
      this.patch({ steering: this.state.steering.slice(1) });
    }
  }

  /** The end of a run whose last events cannot be had: its row and the stored messages are the truth. */
  async concludeByRow(runId: string): Promise<void> {
    const run = await body(api.GET("/api/runs/{run_id}", { params: { path: { run_id: runId } } }));
    if (isActive(run.status) || this.state.live?.runId !== runId) return;
    await this.fetchNewer();
    const { live } = this.state;
    if (live?.runId !== runId) return;
    this.conclude({ ...live, userSeq: run.user_message_seq, error: run.error }, run.status);
  }

  /**
   * Whether live text reaches this page. Each time a run is followed, the server counts it as available until it says
   * otherwise, and with the run it falls silent: so it is set back whenever following begins or ends.
   */
  setLiveAvailable(available: boolean): void {
    this.patch({ liveAvailable: available });
    clearInterval(this.polling);
    if (available) return;
    this.polling = setInterval(() => {
      const { live } = this.state;
      if (live) this.concludeByRow(live.runId).catch(() => undefined);
    }, POLL_WHEN_BLIND);
  }

  activity(): void {
    this.hooks.onActivity();
  }
}
