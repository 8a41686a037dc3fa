/** The list of conversations, and what belongs to the person rather than to a conversation. */
import { LogOut, Monitor, Moon, PanelLeft, SquarePen, Sun, UserRound } from "lucide-react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { useStore } from "zustand";

import { authStore } from "@/app/auth";
import { type Theme, themeStore } from "@/app/theme";
import { Button, IconButton } from "@/ui/Button";
import { ConfirmDialog } from "@/ui/Dialog";
import { Menu, MenuChoice, MenuItem, MenuLine } from "@/ui/Menu";
import { Wordmark } from "@/ui/Wordmark";
import type { ConversationBody } from "@/wire/schema";

import { ConversationItem } from "./ConversationItem";
import { useConversations, useDelete } from "./conversations";
import { groupByDate } from "./groups";

interface SidebarProps {
  currentId: string | null;
  onOpen: (id: string) => void;
  onNewChat: () => void;
  onDeleted: (id: string) => void;
  onHide: () => void;
  onSignOut: () => void;
}

export function Sidebar(props: SidebarProps): ReactNode {
  return (
    <nav aria-label="Conversations" className="flex h-full min-h-0 flex-col bg-side">
      <div className="flex h-14 shrink-0 items-center justify-between pr-2 pl-4">
        <Wordmark />
        <IconButton label="Hide sidebar" onClick={props.onHide}>
          <PanelLeft aria-hidden size={18} />
        </IconButton>
      </div>
      <div className="px-2 pb-2">
        <button
          type="button"
          onClick={props.onNewChat}
          className="touch flex min-h-9 w-full items-center gap-2.5 rounded-lg px-2 text-sm font-medium transition-colors hover:bg-hover"
        >
          <SquarePen aria-hidden size={17} className="text-muted" />
          New chat
        </button>
      </div>
      <List {...props} />
      <AccountMenu onSignOut={props.onSignOut} />
    </nav>
  );
}

function List({ currentId, onOpen, onDeleted }: SidebarProps): ReactNode {
  const list = useConversations();
  const remove = useDelete();
  const [asked, setAsked] = useState<ConversationBody | null>(null);
  // One whose first message was refused has nothing in it; it is shown only while it is open.
  const items = (list.data?.pages.flatMap((page) => page.results) ?? []).filter(
    (item) => item.head > 0 || item.active_run || item.id === currentId,
  );

  if (list.isPending) return <ListSkeleton />;
  if (list.isError && items.length === 0) {
    return (
      <div role="alert" className="flex flex-1 flex-col items-start gap-3 px-4 pt-4 text-sm text-muted">
        The list could not be loaded. {list.error.message}.
        <Button onClick={() => void list.refetch()}>Retry</Button>
      </div>
    );
  }
  return (
    // Focusable, since it scrolls.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className="min-h-0 flex-1 overflow-y-auto px-2 pb-4" tabIndex={-1}>
      {items.length === 0 && <p className="px-2 pt-4 text-sm text-muted">No conversations yet</p>}
      {groupByDate(items, new Date()).map((group) => (
        <section key={group.heading} className="pt-3">
          <h2 className="px-2 pb-1 text-xs font-medium text-muted">{group.heading}</h2>
          <ul>
            {group.items.map((item) => (
              <ConversationItem
                key={item.id}
                conversation={item}
                current={item.id === currentId}
                onOpen={() => onOpen(item.id)}
                onDelete={() => setAsked(item)}
              />
            ))}
          </ul>
        </section>
      ))}
      {list.hasNextPage && (
        <NextPage loading={list.isFetchingNextPage} onReach={() => void list.fetchNextPage()} />
      )}
      {remove.isError && (
        <p role="alert" className="px-2 pt-3 text-sm text-danger-ink">
          The conversation could not be deleted. {remove.error.message}.
        </p>
      )}
      <ConfirmDialog
        open={asked !== null}
        title="Delete this conversation?"
        text={`“${asked?.title || "New chat"}” and all its messages will be deleted for good.`}
        action="Delete"
        onClose={() => setAsked(null)}
        onConfirm={() => {
          remove.mutate(asked!.id);
          onDeleted(asked!.id);
        }}
        returnFocus={() => document.querySelector<HTMLElement>("nav a[aria-current], nav button")}
      />
    </div>
  );
}

/** Loads more when it comes into view; a button for those who do not scroll. */
function NextPage({ loading, onReach }: { loading: boolean; onReach: () => void }): ReactNode {
  const button = useRef<HTMLButtonElement>(null);
  const reach = useRef(onReach);
  reach.current = onReach;
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) reach.current();
    });
    observer.observe(button.current!);
    return () => observer.disconnect();
  }, []);
  return (
    <Button ref={button} className="mt-3 w-full" disabled={loading} onClick={onReach}>
      {loading ? "Loading" : "Show more"}
    </Button>
  );
}

const WIDTHS = ["w-2/5", "w-4/5", "w-3/5", "w-9/12", "w-1/2", "w-11/12", "w-3/4"];

function ListSkeleton(): ReactNode {
  return (
    <div className="flex-1 px-4 pt-4" aria-busy="true">
      <p className="sr-only">Loading conversations</p>
      <div aria-hidden>
        {WIDTHS.map((width) => (
          <div key={width} className="flex h-9 items-center">
            <div className={`skeleton h-3.5 ${width}`} />
          </div>
        ))}
      </div>
    </div>
  );
}

const THEMES: { value: Theme; label: string; icon: ReactNode }[] = [
  { value: "system", label: "System", icon: <Monitor aria-hidden size={16} className="text-muted" /> },
  { value: "light", label: "Light", icon: <Sun aria-hidden size={16} className="text-muted" /> },
  { value: "dark", label: "Dark", icon: <Moon aria-hidden size={16} className="text-muted" /> },
];

function AccountMenu({ onSignOut }: { onSignOut: () => void }): ReactNode {
  const user = useStore(authStore, (state) => state.user);
  const { theme, choose } = useStore(themeStore);
  const name = user?.display_name || user?.username || "";
  return (
    <div className="shrink-0 border-t border-line p-2 pb-[max(0.5rem,env(safe-area-inset-bottom))]">
      <Menu
        align="start"
        side="top"
        trigger={
          <button
            type="button"
            aria-label={`Account and theme: ${name}`}
            className="touch flex min-h-10 w-full items-center gap-2.5 rounded-lg px-2 text-left text-sm transition-colors hover:bg-hover"
          >
            <span className="flex size-7 shrink-0 items-center justify-center rounded-full bg-accent-soft text-accent-ink">
              <UserRound aria-hidden size={15} />
            </span>
            <span className="truncate">{name}</span>
          </button>
        }
      >
        <MenuChoice label="Theme" value={theme} choices={THEMES} onChoose={choose} />
        <MenuLine />
        <MenuItem icon={<LogOut aria-hidden size={16} className="text-muted" />} onSelect={onSignOut}>
          Sign out
        </MenuItem>
      </Menu>
    </div>
  );
}
