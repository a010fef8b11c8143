// RUN: gathernest-opt %s -p "hoist-indices{before=indices}" --verify-diagnostics --split-input-file

// expected-error@unknown {{expected indices to be a loop that copies}}
func.func @gather(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop indices(%i) = %c0 to %n step %c1 {
  }
  func.return
}

// -----

// expected-error@unknown {{expected a plain load of the element; run fold-bounds first}}
func.func @gather(%x: i32, %out: memref<6xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  gather.loop indices(%i) = %c0 to %c6 step %c1 {
    memref.store %x, %out[%i] : memref<6xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{no index is resolved in indices}}
func.func @gather(%data: memref<6xi32>, %out: memref<6xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  gather.loop indices(%i) = %c0 to %c6 step %c1 {
    %x = memref.load %data[%i] : memref<6xi32>
    memref.store %x, %out[%i] : memref<6xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{indices is parallel, and a buffer belongs to one thread; hoist before a loop inside it}}
func.func @gather(%data: memref<6xi32>, %p: memref<6xindex>, %out: memref<6xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  gather.loop parallel indices(%i) = %c0 to %c6 step %c1 {
    %at = memref.load %p[%i] : memref<6xindex>
    %x = memref.load %data[%at] : memref<6xi32>
    memref.store %x, %out[%i] : memref<6xi32>
  }
  func.return
}
