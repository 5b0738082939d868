// Watches a directory and prints what it hears, a line each: WHAT PATH. It begins with
// "ready", and ends, with "ended", when its input does.
// Usage: node watch.mjs parcel|chokidar DIR
import path from 'node:path'
const [kind, dir] = process.argv.slice(2)
const say = (what, at) => console.log(what + ' ' + path.relative(dir, at))

let end
if (kind === 'parcel') {
  const { default: watcher } = await import('@parcel/watcher')
  const sub = await watcher.subscribe(dir, (err, events) => {
    if (err) console.log('error ' + err)
    for (const e of events ?? []) say(e.type, e.path)
  }, { backend: 'inotify' })
  end = () => sub.unsubscribe()
} else {
  const { default: chokidar } = await import('chokidar')
  const names = { add: 'create', addDir: 'create', change: 'update', unlink: 'delete', unlinkDir: 'delete' }
  const w = chokidar.watch(dir, { ignoreInitial: true })
  w.on('all', (what, at) => say(names[what], at))
  w.on('error', err => console.log('error ' + err))
  await new Promise(done => w.on('ready', done))
  end = () => w.close()
}
console.log('ready')
process.stdin.resume()
process.stdin.on('end', async () => {
  try {
    await end()
    console.log('ended')
  } catch (err) {
    console.log('error ' + err)
  }
  process.exit()
})
