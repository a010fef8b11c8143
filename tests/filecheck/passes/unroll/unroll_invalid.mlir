// RUN: gathernest-opt %s -p "unroll{loop=inner factor=2}" --verify-diagnostics --split-input-file

// expected-error@unknown {{inner is parallel; unroll a loop inside it}}
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop parallel inner(%j) = %c0 to %n step %c1 {
    memref.store %x, %out[%j] : memref<?xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{inner takes several iterations at a time already}}
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c2 {
    memref.store %x, %out[%j] : memref<?xi32>
  }
  func.return
}

// -----

// expected-error@unknown {{inner is not innermost; unroll a loop inside it}}
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>, %x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gather.loop inner(%j) = %c0 to %n step %c1 {
    gather.loop more(%k) = %c0 to %n step %c1 {
    }
  }
  func.return
}
