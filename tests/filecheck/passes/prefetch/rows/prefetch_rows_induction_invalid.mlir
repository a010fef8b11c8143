// RUN: gathernest-opt %s -p "prefetch{what=rows loop=a}" --verify-diagnostics --split-input-file

// expected-error@unknown {{the row of data that a reads depends on other loops, too; prefetch in the innermost loop that counts indices}}
func.func @gather(%data: memref<?xi32>, %out: memref<?x?xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    gather.loop b(%j) = %c0 to %n step %c1 {
      %x = memref.load %data[%j] : memref<?xi32>
      memref.store %x, %out[%i, %j] : memref<?x?xi32>
    }
  }
  func.return
}

// -----

// The loop b may be empty, and then there is no index to resolve.
// expected-error@unknown {{the row of data that a reads depends on other loops, too; prefetch in the innermost loop that counts indices}}
func.func @gather(%data: memref<?xi32>, %at: memref<?x?xindex>, %out: memref<?x?xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop a(%i) = %c0 to %n step %c1 {
    gather.loop b(%j) = %c0 to %n step %c1 {
      %p = memref.load %at[%i, %j] : memref<?x?xindex>
      %x = memref.load %data[%p] : memref<?xi32>
      memref.store %x, %out[%i, %j] : memref<?x?xi32>
    }
  }
  func.return
}
