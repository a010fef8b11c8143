// RUN: gathernest-opt %s -p "tile-loops{loops=indices sizes=4 tail=perfect}" --verify-diagnostics --split-input-file

// expected-error@unknown {{tail=perfect needs a trip count that 4 divides, but the trip count of indices is not known; use tail=guard}}
func.func @gather(%out: memref<?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop indices(%i) = %c0 to %n step %c1 {
    memref.store %x, %out[%i] : memref<?xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{tail=perfect needs a trip count that 4 divides, but the trip count of indices is 6; use tail=guard}}
func.func @gather(%out: memref<?xi32>, %x: i32) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  gather.loop indices(%i) = %c2 to %c8 step %c1 {
    memref.store %x, %out[%i] : memref<?xi32>
  }
  func.return
}
