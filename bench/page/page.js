// Escape closes a story. Where a browser prints what is closed as closed, it is opened while it prints.
addEventListener('keydown', function (event) {
  const open = event.key === 'Escape' && document.querySelector('.matrix details[open]')
  if (open) {
    open.open = false
    open.querySelector('summary').focus()
  }
})
addEventListener('beforeprint', function () {
  for (const fold of document.querySelectorAll('details:not([open], .matrix *)')) {
    fold.open = true
    fold.dataset.closed = ''
  }
})
addEventListener('afterprint', function () {
  for (const fold of document.querySelectorAll('details[data-closed]')) {
    fold.open = false
    delete fold.dataset.closed
  }
})
