// A graph writes files in each step; then it goes back to the state and the files after the
// first step, and goes on from there.
//
//     npm install @amberfs/client @langchain/langgraph @langchain/core
//     node langgraph.js WORKSPACE
import { Workspace } from '@amberfs/client'
import { forkFiles, restoreFiles, withSnapshots } from '@amberfs/client/adapters/langgraph'
import { Annotation, MemorySaver, START, StateGraph } from '@langchain/langgraph'
import { appendFile, readFile } from 'node:fs/promises'
import path from 'node:path'

const workspace = await Workspace.open(process.argv[2])
const file = path.join(workspace.path, 'notes.txt')
const State = Annotation.Root({ steps: Annotation({ reducer: (a, b) => a + Number(b), default: () => 0 }) })
const step = text => async () => {
  await appendFile(file, text + '\n')
  return { steps: 1 }
}
const checkpointer = withSnapshots(new MemorySaver(), workspace)
const graph = new StateGraph(State)
  .addNode('one', step('one')).addNode('two', step('two'))
  .addEdge(START, 'one').addEdge('one', 'two')
  .compile({ checkpointer })

const config = { configurable: { thread_id: 'a' }, durability: /** @type {const} */ ('sync') }
await graph.invoke({}, config)
console.log(await readFile(file, 'utf8'))

for await (const past of graph.getStateHistory(config)) {
  if (past.next[0] !== 'two') continue
  const fork = await forkFiles(checkpointer, workspace, past.config)
  console.log('then:', await readFile(path.join(fork.path, 'notes.txt'), 'utf8'))
  await fork.discard()
  await restoreFiles(checkpointer, workspace, past.config)
  await graph.invoke(null, { ...past.config, durability: 'sync' })
  console.log('again:', await readFile(file, 'utf8'))
  break
}
