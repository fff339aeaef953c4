// What this browser keeps of objects, such as keys that no script can read out: one store in one database.

function opened(name, store) {
  return new Promise((done, failed) => {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(store);
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });
}

// database gives a function that does something with the store in a transaction, readonly or readwrite, and gives back the result. It
// rejects in a browser that keeps nothing.
export const database = (name, store) => async (mode, act) => {
  const db = await opened(name, store);
  try {
    return await new Promise((done, failed) => {
      const transaction = db.transaction(store, mode);
      const request = act(transaction.objectStore(store));
      transaction.oncomplete = () => done(request.result);
      transaction.onerror = transaction.onabort = () => failed(transaction.error);
    });
  } finally {
    db.close();
  }
};
