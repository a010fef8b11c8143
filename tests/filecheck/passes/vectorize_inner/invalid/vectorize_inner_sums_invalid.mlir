// RUN: gathernest-opt %s -p "vectorize-inner{lanes=4}" --verify-diagnostics --split-input-file

// expected-error@unknown {{the element is added outside of every loop}}
func.func @gather(%grad: memref<?xf32>, %out: memref<?xf32>, %n: index, %x: f32) {
  gather.accumulate %x, %out[%n] : f32, memref<?xf32>
  func.return
}

// -----

// expected-error@unknown {{indices is ordered; a vector would split its iterations}}
func.func @gather(%grad: memref<?xf32>, %out: memref<?xf32>, %n: index, %x: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop ordered indices(%i) = %c0 to %n step %c1 {
    gather.accumulate %x, %out[%i] : f32, memref<?xf32>
  }
  func.return
}

// -----

// expected-error@unknown {{iterations of inner do not add side by side}}
func.func @gather(%grad: memref<?xf32>, %out: memref<?xf32, strided<[2]>>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop inner(%j) = %c0 to %n step %c1 {
    %x = memref.load %grad[%j] : memref<?xf32>
    gather.accumulate %x, %out[%j] : f32, memref<?xf32, strided<[2]>>
  }
  func.return
}

// -----

// expected-error@unknown {{iterations of inner do not add side by side}}
func.func @gather(%grad: memref<?xf32, strided<[2]>>, %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop inner(%j) = %c0 to %n step %c1 {
    %x = memref.load %grad[%j] : memref<?xf32, strided<[2]>>
    gather.accumulate %x, %out[%j] : f32, memref<?xf32>
  }
  func.return
}

// -----

// expected-error@unknown {{each iteration of inner has an index of its own}}
func.func @gather(%grad: memref<?xf32>, %out: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  gather.loop inner(%j) = %c0 to %n step %c1 {
    %x = memref.load %grad[%j] : memref<?xf32>
    %inside = arith.cmpi ult, %j, %c1 : index
    gather.accumulate %x, %out[%j] if %inside : f32, memref<?xf32>
  }
  func.return
}
