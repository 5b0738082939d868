// An agent of the OpenAI Agents SDK works in a fork; what it did is looked at, and merged.
//
//     npm install @amberfs/client @openai/agents
//     node openai-agents.js WORKSPACE
//
// A script stands for the model. With OPENAI_API_KEY, leave out `model`.
import { Workspace } from '@amberfs/client'
import { AmberfsSandboxClient } from '@amberfs/client/adapters/openai-agents'
import { run } from '@openai/agents'
import { SandboxAgent } from '@openai/agents/sandbox'
import { assistantMessage, functionCall, ScriptedModel } from '@openai/agents/testing'

const workspace = await Workspace.open(process.argv[2])
const client = new AmberfsSandboxClient(workspace)
const agent = new SandboxAgent({
  name: 'worker',
  instructions: 'Work in the sandbox.',
  model: new ScriptedModel([
    [functionCall('exec_command', { cmd: 'echo done > result.txt' }, { callId: '1' })],
    [assistantMessage('I wrote result.txt.')],
  ]),
})

let session = await client.create()
const { finalOutput } = await run(agent, 'Write a result.', { sandbox: { client, session } })
console.log(finalOutput)
console.log(await session.fork.diff('base'))

// It can go on later, in another process, with a state that was written down.
const state = JSON.stringify(await client.serializeSessionState(session.state))
await session.close()
session = await client.resume(await client.deserializeSessionState(JSON.parse(state)))

const { paths } = await session.fork.merge()
console.log('merged:', paths.map(p => `${p.action} ${p.path}`).join(', '))
await session.delete()
