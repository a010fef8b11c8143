// RUN: gathernest-opt %s -p "stream-stores" --verify-diagnostics --split-input-file

// expected-error@unknown {{the innermost loop that clears out does not clear side by side}}
func.func @gather(%grad: memref<?xf32>, %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %nothing = arith.constant 0.0 : f32
  gather.loop parallel clear_axis(%j) = %c0 to %n step %c1 {
    memref.store %nothing, %out[%j] : memref<?xf32>
  }
  gather.loop ordered indices(%i) = %c0 to %n step %c1 {
    %x = memref.load %grad[%i] : memref<?xf32>
    gather.accumulate %x, %out[%i] : f32, memref<?xf32>
  }
  func.return
}

// -----

// expected-error@unknown {{the innermost loop that clears out does not clear side by side}}
func.func @gather(%grad: memref<?xf32>, %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %nothing = arith.constant 0.0 : f32
  gather.loop clear_axis(%j) = %c0 to %n step %c2 {
    memref.store %nothing, %out[%j] : memref<?xf32>
  }
  gather.loop ordered indices(%i) = %c0 to %n step %c1 {
    %x = memref.load %grad[%i] : memref<?xf32>
    gather.accumulate %x, %out[%i] : f32, memref<?xf32>
  }
  func.return
}

// -----

// expected-error@unknown {{the innermost loop that clears out does not clear side by side}}
func.func @gather(%grad: memref<?xf32>, %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %nothing = arith.constant 0.0 : f32
  gather.loop clear_axis(%j) = %c0 to %n step %c1 {
    memref.store %nothing, %out[%c0] : memref<?xf32>
  }
  gather.loop ordered indices(%i) = %c0 to %n step %c1 {
    %x = memref.load %grad[%i] : memref<?xf32>
    gather.accumulate %x, %out[%i] : f32, memref<?xf32>
  }
  func.return
}

// -----

// expected-error@unknown {{the innermost loop that clears out does not clear side by side}}
func.func @gather(%grad: memref<?xf32>, %out: memref<?x?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %nothing = arith.constant 0.0 : f32
  gather.loop clear_axis(%j) = %c0 to %n step %c1 {
    memref.store %nothing, %out[%j, %j] : memref<?x?xf32>
  }
  gather.loop ordered indices(%i) = %c0 to %n step %c1 {
    %x = memref.load %grad[%i] : memref<?xf32>
    gather.accumulate %x, %out[%i, %c0] : f32, memref<?x?xf32>
  }
  func.return
}

// -----

// expected-error@unknown {{the innermost loop that clears out does not clear side by side}}
func.func @gather(%grad: memref<?xf32>, %out: memref<?x?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %nothing = arith.constant 0.0 : f32
  gather.loop clear_axis(%j) = %c0 to %n step %c1 {
    memref.store %nothing, %out[%j, %c0] : memref<?x?xf32>
  }
  gather.loop ordered indices(%i) = %c0 to %n step %c1 {
    %x = memref.load %grad[%i] : memref<?xf32>
    gather.accumulate %x, %out[%i, %c0] : f32, memref<?x?xf32>
  }
  func.return
}
