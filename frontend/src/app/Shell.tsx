/** The page of a signed-in person: the list, the conversation, and the keys that work everywhere. */
import { useQueryClient } from "@tanstack/react-query";
import { PanelLeft, SquarePen } from "lucide-react";
import { Dialog } from "radix-ui";
import {
  type ReactNode,
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { useMatch, useNavigate } from "react-router";

import { ChatView } from "@/features/chat/ChatView";
import { MESSAGE_BOX } from "@/features/chat/Composer";
import { draftsFlush } from "@/features/chat/drafts";
import { Registry } from "@/features/chat/registry";
import type { ChatSession } from "@/features/chat/session";
import { useChat } from "@/features/chat/useChat";
import { listInvalidate, listUpsert, useConversations } from "@/features/sidebar/conversations";
import { Sidebar } from "@/features/sidebar/Sidebar";
import { ExpiredDialog } from "@/features/signin/ExpiredDialog";
import { StatusBanner } from "@/features/status/StatusBanner";
import { IconButton } from "@/ui/Button";

import { api, body } from "./api";
import { authStore, onSignIn } from "./auth";
import { useShortcuts } from "./shortcuts";
import { storageRead, storageWrite } from "./storage";

const SIDEBAR_KEY = "agentx:sidebar";
const wide = window.matchMedia("(min-width: 1024px)");

function useWide(): boolean {
  return useSyncExternalStore(
    (changed) => {
      wide.addEventListener("change", changed);
      return () => wide.removeEventListener("change", changed);
    },
    () => wide.matches,
  );
}

function focusMessageBox(): void {
  document.getElementById(MESSAGE_BOX)?.focus();
}

export function Shell(): ReactNode {
  const id = useMatch("/c/:id")?.params.id ?? null;
  const navigate = useNavigate();
  const client = useQueryClient();
  const isWide = useWide();
  const [shown, setShown] = useState(() => storageRead(SIDEBAR_KEY) !== "hidden");
  const [overlay, setOverlay] = useState(false);
  const [newChats, setNewChats] = useState(0);
  const go = useRef(navigate);
  go.current = navigate;
  const shownSession = useRef<ChatSession | null>(null);

  const registry = useMemo(
    () =>
      new Registry({
        onCreated: (conversation, from) => {
          // Somebody who has gone elsewhere meanwhile is not fetched back.
          if (from === shownSession.current) void go.current(`/c/${conversation.id}`);
          listInvalidate(client);
        },
        onActivity: () => listInvalidate(client),
        onLoaded: (conversation) => listUpsert(client, conversation),
      }),
    [client],
  );
  // `newChats` asks again, since the address may be the same.
  // oxlint-disable-next-line react-hooks/exhaustive-deps
  const session = useMemo(() => registry.open(id), [registry, id, newChats]);
  shownSession.current = session;
  useEffect(() => () => registry.closeAll(), [registry]);
  useEffect(() => onSignIn(() => void client.invalidateQueries()), [client]);

  const newChat = useCallback((): void => {
    setOverlay(false);
    setNewChats((count) => count + 1);
    void go.current("/");
    requestAnimationFrame(focusMessageBox);
  }, []);
  const toggle = useCallback((): void => {
    if (!wide.matches) return setOverlay((open) => !open);
    setShown((before) => {
      storageWrite(SIDEBAR_KEY, before ? "hidden" : "shown");
      return !before;
    });
  }, []);
  useShortcuts(useMemo(() => ({ newChat, toggleSidebar: toggle, focusMessageBox }), [newChat, toggle]));

  const signOut = async (): Promise<void> => {
    await body(api.POST("/api/auth/sign-out")).catch(() => undefined);
    draftsFlush();
    registry.closeAll();
    client.clear();
    authStore.getState().signedOut();
  };
  const sidebar = (
    <Sidebar
      currentId={id}
      onOpen={(next) => {
        setOverlay(false);
        void navigate(`/c/${next}`);
      }}
      onNewChat={newChat}
      onDeleted={(deleted) => deleted === id && newChat()}
      onHide={toggle}
      onSignOut={() => void signOut()}
    />
  );

  const liveAvailable = useChat(session, (state) => state.liveAvailable);
  return (
    <div className="flex h-dvh overflow-hidden">
      <button type="button" className="skip-link" onClick={focusMessageBox}>
        Skip to message box
      </button>
      {isWide && shown && <div className="w-[260px] shrink-0 border-r border-line">{sidebar}</div>}
      {!isWide && (
        <Dialog.Root open={overlay} onOpenChange={setOverlay}>
          <Dialog.Portal>
            <Dialog.Overlay className="fade-in fixed inset-0 z-30 bg-overlay" />
            <Dialog.Content
              aria-describedby={undefined}
              className="fade-in fixed inset-y-0 left-0 z-40 w-[min(86vw,300px)] border-r border-line shadow-panel outline-none"
            >
              <Dialog.Title className="sr-only">Conversations</Dialog.Title>
              {sidebar}
            </Dialog.Content>
          </Dialog.Portal>
        </Dialog.Root>
      )}
      <main aria-label="Chat" className="flex min-w-0 flex-1 flex-col">
        <Header id={id} showToggle={!isWide || !shown} onToggle={toggle} onNewChat={newChat} />
        <StatusBanner liveAvailable={liveAvailable} />
        <ChatView key={session.key} session={session} onNewChat={newChat} />
      </main>
      <ExpiredDialog />
    </div>
  );
}

interface HeaderProps {
  id: string | null;
  showToggle: boolean;
  onToggle: () => void;
  onNewChat: () => void;
}

function Header({ id, showToggle, onToggle, onNewChat }: HeaderProps): ReactNode {
  const list = useConversations();
  const title = id === null ? "" : findTitle(list.data?.pages, id);
  useEffect(() => {
    document.title = title ? `${title} · AgentX` : "AgentX";
  }, [title]);
  return (
    <header className="flex h-14 shrink-0 items-center gap-1 px-2 sm:px-3">
      {showToggle && (
        <IconButton label="Show sidebar" onClick={onToggle}>
          <PanelLeft aria-hidden size={18} />
        </IconButton>
      )}
      {title ? (
        <h1 className="min-w-0 flex-1 truncate px-2 text-sm font-medium">{title}</h1>
      ) : (
        <span className="flex-1" />
      )}
      {showToggle && (
        <IconButton label="New chat" onClick={onNewChat}>
          <SquarePen aria-hidden size={18} />
        </IconButton>
      )}
    </header>
  );
}

function findTitle(pages: { results: { id: string; title: string }[] }[] | undefined, id: string): string {
  for (const page of pages ?? []) {
    const found = page.results.find((item) => item.id === id);
    if (found) return found.title;
  }
  return "";
}
