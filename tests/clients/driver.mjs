// Plays pages that use the AI SDK: real chats over real transports, told what to do line by line.
//
// Each line of input is a command {"do": ..., "page": ...}; each line of output is what the page shows afterwards:
// {"status", "error", "messages", "sent"}. A page counts what it sends, so that a loop of requests is seen.
import { createInterface } from 'node:readline';

const ai = await import(process.argv[2]);
const pages = new Map();
const pause = ms => new Promise(resolve => setTimeout(resolve, ms));

class State {
  constructor(messages) {
    this.status = 'ready';
    this.error = undefined;
    this.messages = messages;
    this.pushMessage = message => { this.messages = [...this.messages, message]; };
    this.popMessage = () => { this.messages = this.messages.slice(0, -1); };
    this.replaceMessage = (index, message) => {
      this.messages = [...this.messages.slice(0, index), structuredClone(message), ...this.messages.slice(index + 1)];
    };
    this.snapshot = value => structuredClone(value);
  }
}

class Page extends ai.AbstractChat {
  constructor({ messages, ...init }) {
    super({ ...init, state: new State(messages) });
  }
}

function open({ url, token, chat, agent, messages = [], auto = true, socket = false, query = '' }) {
  const page = { sent: 0, flying: 0, heard: [] };
  const headers = { authorization: `Bearer ${token}` };
  const counted = async (input, init) => {
    page.sent += init?.method === 'POST' ? 1 : 0;
    page.flying += 1;
    try {
      return await fetch(input, init);
    } finally {
      page.flying -= 1;
    }
  };
  class Counted extends WebSocket {
    send(data) {
      page.sent += JSON.parse(data).type === 'send' ? 1 : 0;
      super.send(data);
    }
  }
  const transport = socket
    ? new ai.WebSocketChatTransport({
        url: `${url.replace('http', 'ws')}/v1/chat?token=${encodeURIComponent(token)}${query ? `&${query}` : ''}`,
        webSocket: Counted,
        body: { agent, replay: true },
      })
    : new ai.DefaultChatTransport({
        api: `${url}/v1/chat${query ? `?${query}` : ''}`,
        headers,
        body: { agent },
        fetch: counted,
        prepareReconnectToStreamRequest: ({ id }) => ({
          api: `${url}/v1/chat/${encodeURIComponent(id)}/stream?replay=true${query ? `&${query}` : ''}`,
          headers,
        }),
      });
  page.chat = new Page({
    id: chat,
    messages,
    transport,
    onData: part => page.heard.push(part),
    onError: () => {},
    sendAutomaticallyWhen: auto ? ai.lastAssistantMessageIsCompleteWithApprovalResponses : undefined,
  });
  return page;
}

async function settle(page, sent) {
  // Whatever an answer sets off begins within a few turns of the loop; give it many.
  let calm = 0;
  while (calm < 5) {
    await pause(4);
    const busy = ['submitted', 'streaming'].includes(page.chat.status) || page.flying > 0 || page.sent < sent;
    calm = busy ? 0 : calm + 1;
  }
}

async function act(command) {
  if (command.do === 'open') {
    pages.set(command.page, open(command));
    return;
  }
  const page = pages.get(command.page);
  const { chat } = page;
  const before = page.sent;
  switch (command.do) {
    case 'begin':
      page.begun = chat.sendMessage({ text: command.text });
      return;
    case 'begin-approve':
      await chat.addToolApprovalResponse({ id: command.id, approved: command.approved });
      return;
    case 'send':
      await chat.sendMessage(command.text === undefined ? undefined : { text: command.text }, { body: command.body });
      return settle(page, before + 1);
    case 'approve':
      await chat.addToolApprovalResponse({
        id: command.id,
        approved: command.approved,
        reason: command.reason,
        options: { body: command.body },
      });
      return settle(page, before + (command.sends ? 1 : 0));
    case 'resume':
      await chat.resumeStream();
      return settle(page, 0);
    case 'again':
      await chat.regenerate();
      return settle(page, before + 1);
    case 'forget':
      chat.messages = chat.messages.slice(0, -1);
      return;
    case 'settle':
      return settle(page, 0);
    case 'look':
      return;
    default:
      throw new Error(`no command ${command.do}`);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  let fault;
  try {
    await act(command);
  } catch (error) {
    fault = String(error?.stack ?? error);
  }
  const page = pages.get(command.page);
  process.stdout.write(
    `${JSON.stringify({
      fault,
      status: page?.chat.status,
      error: page?.chat.error === undefined ? undefined : String(page.chat.error.message),
      messages: page?.chat.messages,
      sent: page?.sent,
      heard: page?.heard,
    })}\n`,
  );
}
process.exit(0);
